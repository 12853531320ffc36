"""Exports of results for services that watch them: Otava, Bencher, conbench and Prometheus. Pure.

Each states what benchkit's ratios and intervals need, as far as the format has a place for it: excluded trials are no
part of a value, and a cell without a usable trial is absent.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence

from benchkit.comparison.run_data import RunData
from benchkit.models.design import controlled
from benchkit.models.metrics import metric_named
from benchkit.models.run import Manifest
from benchkit.plugins.export.formats import BENCHSTAT_METRICS
from benchkit.run_history.estimates import Estimate
from benchkit.run_history.run_estimates import estimates_of
from benchkit.run_history.series import History
from benchkit.stats.inference import t_quantile
from benchkit.stats.samples import take_samples

EXPORTED_METRICS = BENCHSTAT_METRICS

_PROMETHEUS_UNITS = {"sec": "seconds", "sec/req": "seconds", "req/s": "", "B": "bytes", "B/s": "bytes"}


def otava_csv(histories: Sequence[History]) -> str:
    """Return the series of a scenario as Otava's CSV importer reads them: a row for each run that has all of them.

    Columns: time, run, commit, and one for each metric and cell, a ratio to its baseline where there is one. Configure
    `time_column: time`, `attributes: [run, commit]` and the others as `metrics`.
    """
    columns = [
        (_slug(f"{found.metric} {series.title}"), {point.run_id: point for point in series.points if point.is_used})
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
        name = f"{data.manifest.scenario['name']}/{estimate.cell_id}"
        document.setdefault(name, {})[measure] = _with_interval(estimate, data.alpha)
    return json.dumps(document, indent=2) + "\n"


def conbench_json(data: RunData) -> str:
    """Return a run as a list of conbench's benchmark results, one for each cell and metric.

    Their commit is that of the built services, else that of the checkout. conbench wants its repository as well: the
    tag `repository` of the run (`run --tag repository=https://github.com/…`); without it, results have no commit.
    """
    manifest = data.manifest
    results: list[dict[str, object]] = []
    for metric, estimate in _estimates(data):
        if estimate.baseline is not None:
            continue
        values = take_samples(data.trials, metric, data.exclusions).known(estimate.cell_id)
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
            "tags": {"name": str(manifest.scenario["name"]), "metric": metric, "scale": manifest.scale, **levels},
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
    heads: dict[str, list[str]] = {}
    for metric, estimate in _estimates(data):
        described = metric_named(metric)
        unit = _PROMETHEUS_UNITS.get(described.unit, "") if estimate.baseline is None else "ratio"
        base = "benchkit_" + re.sub(r"_s(?=_|$)", "", metric)
        labels = {
            "scenario": str(manifest.scenario["name"]),
            "scale": manifest.scale,
            "cell": estimate.cell_id,
            "run": manifest.run_id,
            **({} if estimate.baseline is None else {"baseline": estimate.baseline}),
        }
        shown = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
        for part, value in _with_interval(estimate, data.alpha).items():
            suffix = {"value": "", "lower_value": "_low", "upper_value": "_high"}[part]
            name = "_".join(filter(None, (base + suffix, unit)))
            about = {"": "", "_low": ", lower end of the interval", "_high": ", upper end of the interval"}[suffix]
            heads[name] = [
                f"# TYPE {name} gauge",
                *([f"# UNIT {name} {unit}"] if unit else []),
                f"# HELP {name} {_escape(described.description)}{about}",
            ]
            line = f"{name}{{{shown}}} {value:.9g} {manifest.started_at.timestamp():.3f}"
            families.setdefault(name, []).append(line)
    lines = [line for name, samples in families.items() for line in (*heads[name], *samples)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _estimates(data: RunData) -> Iterator[tuple[str, Estimate]]:
    """Yield the estimates of the run that have a value, controls excluded, with their metric."""
    for metric in EXPORTED_METRICS:
        if metric in data.trials and data.trials[metric].notna().any():
            for estimate in estimates_of(data, metric).estimates:
                if estimate.log is not None and controlled(estimate.cell_id) is None:
                    yield metric, estimate


def _with_interval(estimate: Estimate, alpha: float) -> dict[str, float]:
    """Return an estimate with its interval, where it has one, under the names of Bencher."""
    log = estimate.log or 0.0
    found = {"value": math.exp(log)}
    if estimate.error is not None and estimate.df is not None:
        reach = t_quantile(1 - alpha, estimate.df) * estimate.error
        found |= {"lower_value": math.exp(log - reach), "upper_value": math.exp(log + reach)}
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


def _slug(text: str) -> str:
    """Return a name that needs no quotes: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
