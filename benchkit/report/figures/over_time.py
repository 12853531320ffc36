"""The figure over time: rate and latency by second, and the telemetry of the servers' hosts, one line per trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.comparison.runs.counters import of_servers
from benchkit.models.capacity import goal_of
from benchkit.models.metrics import P50, P99
from benchkit.report.chart import Chart, Panel, Scale, and_more, line_legend, notes, sample_evenly
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import DOTTED, Layer, lines, reference, shade
from benchkit.report.stored_run import StoredRun, cached_per_run, numbers
from benchkit.report.style import SERIES

MIN_SECONDS = 3
"""Smallest number of seconds of a trial that is drawn over time."""
GAP = 3.0
"""Distance of two samples, in usual intervals, above which no line connects them."""
_SAMPLES = ["trial_id", "t_s", "value"]


@dataclass(frozen=True)
class _Measure:
    """A panel: the sum of metrics of `telemetry` over the hosts of servers, as a rate or as it is."""

    heading: str
    metrics: tuple[str, ...]
    text: Callable[[float], str]
    is_rate: bool = False


_TELEMETRY = (
    _Measure("CPUs busy with servers", ("cpu_s_total",), "{:g}".format, is_rate=True),
    _Measure(
        "sent and received", ("net_received_bytes_total", "net_sent_bytes_total"), units.bytes_per_s, is_rate=True
    ),
    _Measure("disk", ("disk_read_bytes_total", "disk_written_bytes_total"), units.bytes_per_s, is_rate=True),
    _Measure("memory used", ("memory_used_bytes",), units.size),
    _Measure("live heap", ("heap_bytes",), units.size),
    _Measure("collections/s", ("gc_total",), units.rate, is_rate=True),
    _Measure("goroutines", ("goroutines",), units.count),
)
_QUEUE = "accept queue"
_LOAD = {"requests/s": ("rps", units.rate), "p50 latency": (P50, units.seconds), "p99 latency": (P99, units.seconds)}
"""Columns of `series`, which a load generator of ours writes, by heading."""


def _chart(run: StoredRun) -> Chart | None:
    frames = _frames(run)
    if not frames:
        return None
    measured = run.cells_in(set().union(*(frame["cell_id"] for frame in frames.values())))
    cells = sample_evenly(measured, len(SERIES))
    hues = {view.cell_id: hue for hue, view in enumerate(cells)}
    exclusions = run.values("rps").exclusions
    texts = {name: text for name, (_, text) in _LOAD.items()} | {each.heading: each.text for each in _TELEMETRY}
    panels = []
    for heading, frame in frames.items():
        drawn = frame[frame["cell_id"].isin(list(hues))].sort_values(["trial_id", "t_s"])
        drawn = drawn.rename(columns={"t_s": "x", "value": "y"}).assign(
            hue=drawn["cell_id"].map(hues), exclusion=drawn["trial_id"].map(exclusions)
        )
        low, high = float(drawn["y"].min()), float(drawn["y"].max())
        if heading.endswith("latency"):
            scale = Scale(units.seconds, low=low / 1.3, high=1.3 * high, kind="log")
        else:
            scale = Scale(texts.get(heading, units.count), low=0, high=1.15 * high or None, ticks=3)
        panels.append(Panel([*_background(run, heading), lines(drawn)], scale, heading))
    ends = [float(value) for frame in frames.values() for value in (frame["t_s"].min(), frame["t_s"].max())]
    return Chart(
        caption="Level lines show a steady state; dips, steps and a final rise show a server that had not settled"
        + and_more(len(measured) - len(cells), "cell")
        + ".",
        panels=panels,
        x=Scale(units.count, "s from the start of the window", min(ends), max(ends), whole=True),
        subtitle=[
            notes(
                "one line per trial",
                "grey: the measured window" if _shape(run) is None else "grey: the peak of the target rate",
                DOTTED if exclusions else None,
            )
        ],
        legend=line_legend({hues[view.cell_id]: view.label for view in cells}),
    )


OVER_TIME = ReportFigure("over-time", "Load and servers over time", _chart)


def _background(run: StoredRun, heading: str) -> list[Layer]:
    """Return the shaded range, and the limit of the objective."""
    durations = numbers(run.measured["duration_s"]).dropna()
    shaded = _shape(run) or ((0.0, float(durations.median())) if len(durations) else None)
    layers: list[Layer] = [] if shaded is None else [shade(*shaded)]
    goal = goal_of(run.manifest.scenario)
    limits = {} if goal is None or goal.slo is None else goal.slo.latencies
    metric = _LOAD.get(heading, ("", None))[0]
    return [*layers, reference(limits[metric])] if metric in limits else layers


def _shape(run: StoredRun) -> tuple[float, float] | None:
    """Return start and end of the shape of the target rate that all cells have; None without one."""
    shape = run.manifest.scenario.get("load", {}).get("shape") or {}
    start_s, length_s = shape.get("start_s"), shape.get("length_s")
    return (start_s, start_s + length_s) if isinstance(start_s, int) and isinstance(length_s, int) else None


@cached_per_run
def _frames(run: StoredRun) -> dict[str, pd.DataFrame]:
    """Return the samples of each measure of the run, by heading: trial_id, cell_id, t_s, value."""
    found = _load_frames(run)
    telemetry = run.telemetry
    servers = of_servers(telemetry)
    servers = servers[servers["host"].isin(list(servers["host"][servers["service"].notna()].unique()))]
    for each in _TELEMETRY:
        samples = counter_sums(servers, each.metrics, ["trial_id", "host", "service"])
        if each.is_rate:
            samples = rates(samples, ["trial_id", "host", "service"])
        samples = samples.assign(t_s=samples["t_s"].astype("float64").round())
        by_service = samples.groupby(["trial_id", "t_s", "host", "service"], dropna=False)["value"].mean()
        found[each.heading] = by_service.groupby(["trial_id", "t_s"]).sum(min_count=1).reset_index()
    queues = telemetry[telemetry["metric"] == "accept_queue"]
    if (queues["value"] > 0).any():
        found[_QUEUE] = queues.groupby(["trial_id", "t_s"])["value"].max().reset_index()
    cells = run.measured[["trial_id", "cell_id"]]
    return {
        heading: joined
        for heading, frame in found.items()
        if len(joined := frame[_SAMPLES].merge(cells, on="trial_id"))
    }


def _load_frames(run: StoredRun) -> dict[str, pd.DataFrame]:
    """Return the rate and the latencies that the load generator saw by second, or its rate by slice of a sliced run."""
    series = run.table("series")
    lengths = series.groupby("trial_id")["t_s"].transform("size")
    series = series[lengths >= MIN_SECONDS]
    found = {name: series.assign(value=numbers(series[column])) for name, (column, _) in _LOAD.items()}
    for name in ("p50 latency", "p99 latency"):
        found[name] = found[name][found[name]["value"] > 0]
    slices = run.table("slices")
    if series.empty and len(slices):
        # Time counts only within slices: between them the load goes to other cells.
        lengths = numbers(slices["duration_s"])
        elapsed_s = lengths.groupby(slices["trial_id"]).cumsum() - lengths
        found["requests/s"] = slices.assign(t_s=elapsed_s, value=numbers(slices["rps"]))
    return found


def counter_sums(samples: pd.DataFrame, metrics: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Return the sum of metrics over their instances at each time: columns `by`, t_s, value.

    `samples` are rows of `telemetry`. If an instance (core, interface, process) has no sample at a time, the sum is
    unknown and its row is omitted.
    """
    keys = [*by, "t_s"]
    rows = samples[samples["metric"].isin(list(metrics))]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, "value"])
    summed = rows.groupby(keys, dropna=False)["value"].agg(["sum", "count"]).reset_index()
    instances = summed.groupby(list(by), dropna=False)["count"].transform("max")
    return summed[summed["count"] == instances].rename(columns={"sum": "value"})[[*keys, "value"]]


def rates(counters: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the increase per second of a counter between two samples, at the later one: columns `by`, t_s, value.

    A gap, or a decrease as after the restart of a process, gives a row without a value, which interrupts a line.
    """
    rows = counters.sort_values([*by, "t_s"], kind="stable")
    groups = rows.groupby(list(by), dropna=False, sort=False)
    elapsed_s, increase = groups["t_s"].diff(), groups["value"].diff()
    usual_s = elapsed_s.groupby([rows[key] for key in by], dropna=False).transform("median")
    is_known = (elapsed_s > 0) & (elapsed_s <= GAP * usual_s) & (increase >= 0)
    return rows.assign(value=(increase / elapsed_s).where(is_known, np.nan))[elapsed_s.notna()]
