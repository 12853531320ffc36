"""Exports of a run: CSV, benchstat, HdrHistogram's .hgrm, Otava, Bencher, conbench and Prometheus. Pure.

Each states what benchkit's ratios and intervals need, as far as the format has a place for it. Excluded trials are no
part of a value, and a cell without a usable trial is absent.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from benchkit.comparison.notes import latency_note
from benchkit.comparison.runs.run_data import RunData
from benchkit.errors import InputError
from benchkit.models.columns import Metric
from benchkit.models.design import controlled
from benchkit.models.metrics import P50, P99, metric_named, percentile_column
from benchkit.models.run import Manifest
from benchkit.run_history.estimates import Estimate, estimates_of
from benchkit.run_history.series import History
from benchkit.stats.samples import Exclusion, is_comparable

EXPORTED_METRICS = (
    "rps",
    "latency_mean_s",
    P50,
    P99,
    percentile_column(99.9),
    "server_cpu_s_per_request",
)

TICKS = 5
"""Steps in each half of the remaining distance to 100 %, as in HdrHistogram's own tools."""

_MS_PER_S = 1000.0


def benchstat(manifest: Manifest, trials: pd.DataFrame, exclusions: Iterable[Exclusion] = ()) -> str:
    """Return the trials in the Go benchmark format that benchstat reads: a line for each, a name for each cell.

    Format: Go proposal 14313 and golang.org/x/perf/benchfmt (unit lines). Metrics that a trial is excluded for are
    omitted; `benchstat old.txt new.txt` compares runs, though without blocks.
    """
    excluded = tuple(exclusions)
    metrics = [metric_named(name) for name in EXPORTED_METRICS if name in trials and trials[name].notna().any()]
    lines = [*_about(manifest)]
    lines += [f"Unit {_unit(metric)} better={metric.better}" for metric in metrics]
    rows = trials[is_comparable(trials)].sort_values(["block", "position", "trial_id"])
    if any(metric.name.startswith("latency_") for metric in metrics):
        lines.append(f"# latency: {latency_note(rows)}")
    for row in rows.to_dict("records"):
        out = [one for one in excluded if one.trial_id == row["trial_id"]]
        shown = [metric for metric in metrics if not any(one.covers(metric.name) for one in out)]
        figures = [f"{row[m.name]:.9g} {_unit(m)}" for m in shown if math.isfinite(row[m.name])]
        if figures:
            requests = row["requests"]
            times = int(requests) if math.isfinite(requests) and requests >= 1 else 1
            lines.append("\t".join([_benchmark(manifest, str(row["cell_id"])), str(times), *figures]))
    return "\n".join(lines) + "\n"


def hgrm(buckets: pd.DataFrame) -> str:
    """Return a percentile distribution as HdrHistogram writes it (`.hgrm`), in milliseconds.

    `buckets` are rows of `latency` of one series: low_s and high_s (both included) and count; rows of several trials
    are one histogram. The steps follow Java's PercentileIterator. (`outputPercentileDistribution` of the Python
    library uses others, and does not scale the deviation.) Raises InputError without rows.
    """
    if buckets.empty:
        raise InputError("no histogram to export", hint="only tools that give every request have one")
    merged = buckets.groupby(["high_s", "low_s"])["count"].sum()  # ascending
    high = merged.index.get_level_values("high_s").to_numpy(dtype=np.float64) * _MS_PER_S
    middle = (merged.index.get_level_values("low_s").to_numpy(dtype=np.float64) * _MS_PER_S + high) / 2
    counts = merged.to_numpy(dtype=np.int64)
    cumulative = np.cumsum(counts)
    total = int(cumulative[-1])
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    reached = 100.0 * cumulative / total
    for level in _levels(float(reached[-2]) if len(reached) > 1 else -1.0):
        i = int(np.searchsorted(reached, level))
        line = f"{high[i]:12.3f} {level / 100:14.12f} {cumulative[i]:10d}"
        lines.append(line if level >= 100 else f"{line} {1 / (1 - level / 100):14.2f}")  # noqa: PLR2004 - per cent
    mean = float((middle * counts).sum()) / total
    deviation = math.sqrt(float(((middle - mean) ** 2 * counts).sum()) / total)
    lines += [
        f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]",
        f"#[Max     = {high[-1]:12.3f}, Total count    = {total:12d}]",
        f"#[Buckets = {len(counts):12d}, SubBuckets     = {1:12d}]",
    ]
    return "\n".join(lines) + "\n"


def _levels(before_last: float) -> Iterator[float]:
    """Yield the percentages to report, ever finer towards 100: until one exceeds `before_last`, then 100.

    The step is 100 / (ticks · 2^(⌊log2(100 / (100 - level))⌋ + 1)): each half of the remaining distance has as many
    ticks.
    """
    level = 0.0
    while True:
        yield level
        if level > before_last:
            break
        halves = 2.0 ** (math.floor(math.log2(100.0 / (100.0 - level))) + 1)
        level += 100.0 / (TICKS * halves)
    yield 100.0


def _about(manifest: Manifest) -> Iterator[str]:
    """Yield the keys that benchstat groups results by (those with equal keys are compared), and comments."""
    yield f"scenario: {_one_line(manifest.scenario_name)}"
    yield f"scale: {manifest.scale}"
    for name, value in {"run": manifest.run_id, **manifest.versions}.items():
        yield f"# {_one_line(name)}: {_one_line(value)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _unit(metric: Metric) -> str:
    """Return a unit that includes the quantity: `p99-sec`; benchstat distinguishes metrics by their unit."""
    match = re.fullmatch(r"latency_(\w+)_s", metric.name)
    return f"{match[1]}-{metric.unit}" if match else metric.unit


def _benchmark(manifest: Manifest, cell_id: str) -> str:
    """Return the name of a cell: `BenchmarkQuickstart/stack=go/connections=64`.

    benchstat would read a last part that ends in a hyphen and a number as GOMAXPROCS; such a name gets another one.
    """
    parts = re.split(r"[-_]", manifest.scenario_name)
    name = "".join(part.capitalize() for part in parts)
    path = "/".join(re.sub(r"[\s/]+", "_", part) for part in cell_id.split(","))
    return f"Benchmark{name}/{path}{'-1' if re.search(r'-[0-9]+$', path) else ''}"


def merged_by_cell(
    trials: pd.DataFrame,
    latency: pd.DataFrame,
    series: str,
    cells: Sequence[str],
    exclusions: Iterable[Exclusion] = (),
) -> dict[str, str]:
    """Return the `.hgrm` of each of these cells, merged over its measured trials; cells without one are absent.

    Trials that are excluded for the median latency are not merged.
    """
    out = [excluded.trial_id for excluded in exclusions if excluded.covers(P50)]
    rows = latency[(latency["series"] == series) & ~latency["trial_id"].isin(out)]
    found: dict[str, str] = {}
    for cell_id in cells:
        ids = trials.loc[(trials["cell_id"] == cell_id) & is_comparable(trials), "trial_id"]
        of_cell = rows[rows["trial_id"].isin(ids)]
        if not of_cell.empty:
            found[cell_id] = hgrm(of_cell)
    return found


_PROMETHEUS_PARTS = {
    "value": ("", ""),
    "lower_value": ("_low", ", lower end of the interval"),
    "upper_value": ("_high", ", upper end of the interval"),
}
"""Suffix of a name, and words of its description."""
_PROMETHEUS_UNITS = {"sec": "seconds", "sec/req": "seconds", "req/s": "", "B": "bytes", "B/s": "bytes"}


def otava_csv(histories: Sequence[History]) -> str:
    """Return the series of a scenario as Otava's CSV importer reads them: a row for each run that has all of them.

    Columns: time, run, commit, and one for each metric and cell, a ratio to its baseline where there is one. Configure
    `time_column: time`, `attributes: [run, commit]` and the others as `metrics`.
    """
    columns = [
        (
            re.sub(r"[^A-Za-z0-9]+", "_", f"{found.metric} {series.title}").strip("_"),
            {point.run_id: point for point in series.points if point.is_used},
        )
        for found in histories
        for series in found.series
    ]
    points = {point.run_id: point for found in histories for series in found.series for point in series.points}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "run", "commit", *(name for name, _ in columns)])
    for run_id, point in sorted(points.items(), key=lambda each: each[1].started_at):
        values = [of_run[run_id].value for _, of_run in columns if run_id in of_run]
        if len(values) == len(columns):
            commit = (point.code or "").rstrip("+")
            writer.writerow([f"{point.started_at:%Y-%m-%d %H:%M:%S %z}", run_id, commit, *(f"{v:.9g}" for v in values)])
    return text.getvalue()


def bencher_json(data: RunData) -> str:
    """Return a run in Bencher Metric Format: values with their intervals by cell and metric, ratios as `…-ratio`."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    for metric, estimate in _estimates(data):
        measure = metric.replace("_", "-") + ("" if estimate.baseline is None else "-ratio")
        name = f"{data.manifest.scenario_name}/{estimate.cell_id}"
        document.setdefault(name, {})[measure] = _with_interval(estimate, data.alpha)
    return json.dumps(document, indent=2) + "\n"


def conbench_json(data: RunData) -> str:
    """Return a run as a list of conbench's benchmark results, one for each cell and metric.

    Their commit is the built services', else the checkout's. conbench also needs the repository: the
    tag `repository` of the run (`run --tag repository=https://github.com/…`). Without it, results have no commit.
    """
    manifest = data.manifest
    results: list[dict[str, object]] = []
    for metric, estimate in _estimates(data):
        if estimate.baseline is not None:
            continue
        values = data.samples(metric).known(estimate.cell_id)
        levels = next(cell.levels for cell in manifest.cells if cell.cell_id == estimate.cell_id)
        commit = next(iter(estimate.commits), None) or (manifest.code.commit if manifest.code else None)
        result: dict[str, object] = {
            "run_id": manifest.run_id,
            "batch_id": manifest.run_id,
            "run_reason": manifest.tags.get("reason", "commit"),
            "timestamp": manifest.started_at.isoformat(),
            "stats": {
                "data": [math.exp(value) for value in values],
                "unit": metric_named(metric).unit,
                "times": [],
                "time_unit": "s",
                "iterations": len(values),
            },
            "tags": {"name": manifest.scenario_name, "metric": metric, "scale": manifest.scale, **levels},
            "info": dict(manifest.versions),
            "context": {"benchmark_language": "HTTP"},
            "cluster_info": _cluster(manifest),
        }
        if commit is not None and "repository" in manifest.tags:
            result["github"] = {"commit": commit, "repository": manifest.tags["repository"]}
        results.append(result)
    return json.dumps(results, indent=2) + "\n"


def openmetrics(data: RunData) -> str:
    """Return a run in the text format of OpenMetrics 1.0: a gauge for each metric, with the time of the run.

    `benchkit_rps` has the values, `benchkit_rps_ratio` the ratios to the baseline; `_low` and `_high` are the ends of
    their intervals.
    """
    manifest = data.manifest
    families: dict[str, list[str]] = {}
    for metric, estimate in _estimates(data):
        described = metric_named(metric)
        unit = _PROMETHEUS_UNITS.get(described.unit, "") if estimate.baseline is None else "ratio"
        base = "benchkit_" + re.sub(r"_s(?=_|$)", "", metric)
        labels = {
            "scenario": manifest.scenario_name,
            "scale": manifest.scale,
            "cell": estimate.cell_id,
            "run": manifest.run_id,
            **({} if estimate.baseline is None else {"baseline": estimate.baseline}),
        }
        shown = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
        for part, value in _with_interval(estimate, data.alpha).items():
            suffix, about = _PROMETHEUS_PARTS[part]
            name = "_".join(filter(None, (base + suffix, unit)))
            head = [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
            head.append(f"# HELP {name} {_escape(described.description)}{about}")
            line = f"{name}{{{shown}}} {value:.9g} {manifest.started_at.timestamp():.3f}"
            families.setdefault(name, head).append(line)
    return "\n".join([*(line for lines in families.values() for line in lines), "# EOF"]) + "\n"


def _estimates(data: RunData) -> Iterator[tuple[str, Estimate]]:
    """Yield the estimates of the run that have a value, controls excluded, with their metric."""
    for metric in EXPORTED_METRICS:
        if metric in data.trials and data.trials[metric].notna().any():
            for estimate in estimates_of(data, metric).estimates:
                if estimate.log is not None and controlled(estimate.cell_id) is None:
                    yield metric, estimate


def _with_interval(estimate: Estimate, alpha: float) -> dict[str, float]:
    """Return an estimate with its interval, where it has one, under the names of Bencher."""
    found = {"value": math.exp(estimate.log or 0.0)}
    if interval := estimate.interval(alpha):
        found |= {"lower_value": interval[0], "upper_value": interval[1]}
    return found


def _cluster(manifest: Manifest) -> dict[str, object]:
    """Return the hosts as conbench describes a cluster; it compares results whose `info` is equal."""
    info = {
        "+".join(host.roles): {
            "cpu_model": host.facts.cpu_model,
            "cpus": len(host.facts.cpus),
            "memory_bytes": host.facts.memory_bytes,
            "kernel": host.facts.kernel,
        }
        for host in manifest.hosts
    }
    return {"name": "+".join(host.name for host in manifest.hosts), "info": info, "optional_info": {}}


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
