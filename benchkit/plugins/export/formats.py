"""Exports of a run for other tools: benchstat's text format, CSV, and HdrHistogram's percentile distributions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from benchkit.comparison.latency_notes import latency_note
from benchkit.errors import InputError
from benchkit.models.columns import Metric
from benchkit.models.metrics import P50, P99, metric_named, percentile_column
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion, is_comparable

BENCHSTAT_METRICS = (
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


def csv(trials: pd.DataFrame) -> str:
    """Return the trials as CSV (RFC 4180): the columns of the table, absent values empty."""
    text: str = trials.to_csv(index=False, lineterminator="\r\n")
    return text


def benchstat(manifest: Manifest, trials: pd.DataFrame, exclusions: Iterable[Exclusion] = ()) -> str:
    """Return the trials in the Go benchmark format that benchstat reads: a line for each, a name for each cell.

    Format: Go proposal 14313 and golang.org/x/perf/benchfmt (unit lines). Metrics that a trial is excluded for are
    omitted; `benchstat old.txt new.txt` compares runs, though without blocks.
    """
    excluded = tuple(exclusions)
    metrics = [metric_named(name) for name in BENCHSTAT_METRICS if name in trials and trials[name].notna().any()]
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
    are one histogram. The steps are those of Java's PercentileIterator. (`outputPercentileDistribution` of the Python
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
    """Yield percentages to report, ever finer towards 100: to one beyond what the last bucket but one reaches, and 100.

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
    yield f"scenario: {_one_line(str(manifest.scenario['name']))}"
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
    parts = re.split(r"[-_]", str(manifest.scenario["name"]))
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
