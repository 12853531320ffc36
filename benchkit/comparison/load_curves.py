"""The load curves of a run's cells, and the latencies at its held rate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.component_costs import CPU_TIME, RUN_QUEUE_DELAY, WITHOUT_CPU, TrialCosts
from benchkit.comparison.components import Component, answer_components
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.why import answer_time_sentence
from benchkit.judge.load_curve import LoadCurve, load_curve, slots_clause
from benchkit.models.base import Frozen
from benchkit.models.design import stack_of
from benchkit.models.metrics import P50, P99, P999, PERCENTILES
from benchkit.models.rows import LoadCurveRow
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import excluded_ids

HELD_METRICS = (P50, P99, P999)
SAMPLES_BEYOND = float(Thresholds().samples_beyond)
"""Requests that must lie beyond a percentile: the default threshold of the check `too-few-samples`."""


class CellCurve(Frozen):
    """The load curve of a cell."""

    cell_id: str
    label: str
    curve: LoadCurve


class AnswerTime(Frozen):
    """Mean time of an answer at the held rate and its parts, in seconds, of all services (`TrialCosts.answers`)."""

    mean_s: float
    cpu_s: float
    run_queue_s: float
    without_cpu_s: float
    """Rest, which the answer waits without CPU."""

    @property
    def text(self) -> str:
        """The mean and its parts in words."""
        cpu, queue, rest = map(units.seconds, (self.cpu_s, self.run_queue_s, self.without_cpu_s))
        return f"{units.seconds(self.mean_s)}: {cpu} on CPUs, {queue} in run queues, {rest} waits without CPU"


class HeldLatency(Frozen):
    """Latencies of a cell at the held rate, in seconds; None where its usable trials have too few requests."""

    cell_id: str
    label: str
    p50_s: float | None
    p99_s: float | None
    p999_s: float | None
    answer: AnswerTime | None = None
    """Parts of the mean; None without telemetry of its services."""


class HeldRate(Frozen):
    """The phase of a run at a held rate, in requests per second, and its ratios of latencies to the baseline.

    `parts` are the components of the differences of the mean times of answers.
    """

    rate: float
    servers: tuple[HeldLatency, ...]
    ratios: tuple[Ratio, ...]
    parts: tuple[Component, ...] = ()

    def of(self, cell_id: str) -> HeldLatency | None:
        """Return the latencies of a cell."""
        return next((each for each in self.servers if each.cell_id == cell_id), None)

    def ratio(self, cell_id: str, metric: str) -> Ratio | None:
        """Return the ratio of a cell in a metric."""
        return next((each for each in self.ratios if each.cell_id == cell_id and each.metric == metric), None)


def cell_curves(data: RunData) -> tuple[CellCurve, ...]:
    """Return the load curve of each cell that has one, in the order of the plan."""
    rows = data.rows(LoadCurveRow.TABLE)
    if rows.empty:
        return ()
    searched = data.trials.loc[data.trials["kind"].isin(["calibrate", "probe"]), ["trial_id", "cell_id"]]
    points = rows.merge(searched, on="trial_id")
    columns, thresholds = [field.name for field in fields(LoadCurveRow)], thresholds_of(data.manifest)
    held = _means_at_held_rate(data)
    curves = []
    for view in cell_views(data.manifest):
        of_cell = points[points["cell_id"] == view.cell_id]
        first = of_cell[of_cell["trial_id"] == of_cell["trial_id"].iloc[0]] if len(of_cell) else of_cell
        if (first["rps"] > 0).any():
            found: list[dict[str, Any]] = [
                {name: None if pd.isna(row[name]) else row[name] for name in columns}
                for row in first.to_dict("records")
            ]
            known = (LoadCurveRow(**point) for point in found)
            curve = load_curve(known, thresholds, held.get(view.cell_id))
            levels = next(cell.levels for cell in data.manifest.cells if cell.cell_id == view.cell_id)
            curve = _with_stated_slots(curve, stack_of(data.manifest.scenario, levels))
            curves.append(CellCurve(cell_id=view.cell_id, label=view.label, curve=curve))
    return tuple(curves)


def _means_at_held_rate(data: RunData) -> Mapping[str, float]:
    """Return the mean time of an answer of each cell that has usable trials at a held rate, in seconds."""
    if data.held is None:
        return {}
    trials = data.held.trials
    usable = trials[~trials["trial_id"].isin(excluded_ids(data.held.exclusions, P50))]
    medians = usable.groupby("cell_id")["latency_mean_s"].median().dropna()
    return {str(cell_id): float(mean_s) for cell_id, mean_s in medians.items()}


_STATED = re.compile(
    r"(?<![\w-])(?:--?(?:w|workers|threads|processes|pool|concurrency)|\w*(?:WORKERS|THREADS|CONCURRENCY|POOL_SIZE)|"
    r"(?:pm\.)?max_children|workers|threads)(?:=|: | )(?P<number>\d+)(?![\w.])"
)
"""Options and variables that set how many requests a server serves at a time."""


def _with_stated_slots(curve: LoadCurve, stack: Mapping[str, Any]) -> LoadCurve:
    """Return a curve whose limit names the options of the stack that set its number of slots, or its factors."""
    if curve.limit.slots is None:
        return curve
    stated: dict[str, int] = {}
    for service in (stack.get("services") or {}).values():
        words = [" ".join(map(str, service.get("run") or ()))]
        words += [f"{name}={value}" for name, value in (service.get("env") or {}).items()]
        words += [f"{name}: {value}" for name, value in service.items() if isinstance(value, int)]
        stated |= {match[0]: int(match["number"]) for text in words for match in _STATED.finditer(text)}
    possible = curve.limit.possible_slots
    agreeing = {text: number for text, number in stated.items() if number in possible}
    if not agreeing and math.prod(stated.values()) in possible and stated:
        agreeing = dict.fromkeys(stated, math.prod(stated.values()))
    if len(set(agreeing.values())) != 1:
        return curve
    names, number = " and ".join(f"`{text}`" for text in agreeing), next(iter(agreeing.values()))
    evidence, clause = f"{curve.limit.evidence}; stated by {names}", slots_clause(units.counted(number, "request"))
    limit = curve.limit.model_copy(update={"whole_slots": number, "clause": clause, "evidence": evidence})
    return curve.model_copy(update={"limit": limit})


def held_rate(held: RunData, ratios: Sequence[Ratio]) -> HeldRate:
    """Return the phase at a held rate, from its trials (`RunData.held`) and their ratios in `HELD_METRICS`.

    Percentiles are of the requests of all usable trials of a cell: a single trial may have too few for a p99.
    """
    buckets, answers = held.rows("latency"), TrialCosts(held).answers
    servers = []
    for view in cell_views(held.manifest):
        if view.unsupported is None:
            of_cell = held.trials.loc[held.trials["cell_id"] == view.cell_id, "trial_id"]
            usable = set(of_cell) - excluded_ids(held.exclusions, P50)
            p50, p99, p999 = _percentiles(buckets, usable)
            latencies = {"p50_s": p50, "p99_s": p99, "p999_s": p999}
            answer = _answer_time(answers[answers["cell_id"] == view.cell_id])
            servers.append(HeldLatency(cell_id=view.cell_id, label=view.label, answer=answer, **latencies))
    rate = float(held.trials["rate_requested"].astype("float64").median())
    compared = tuple(each for each in ratios if not each.control)
    pairs = dict.fromkeys(ComparedCells(each.cell_id, each.baseline) for each in compared)
    parts = answer_components(answers, pairs, held.alpha)
    return HeldRate(rate=rate, servers=tuple(servers), ratios=compared, parts=parts)


def _answer_time(answers: pd.DataFrame) -> AnswerTime | None:
    """Return the means over trials of the parts of an answer's time; None without trials."""
    if answers.empty:
        return None
    means = answers.groupby("component")["value"].sum() / answers["trial_id"].nunique()
    cpu, queue, rest = (float(means[name]) for name in (CPU_TIME, RUN_QUEUE_DELAY, WITHOUT_CPU))
    return AnswerTime(mean_s=cpu + queue + rest, cpu_s=cpu, run_queue_s=queue, without_cpu_s=rest)


def _percentiles(buckets: pd.DataFrame, trials: set[str]) -> list[float | None]:
    """Return the percentiles of `HELD_METRICS` over these trials; None where too few requests lie beyond."""
    if buckets.empty:
        return [None] * len(HELD_METRICS)
    rows = buckets[buckets["trial_id"].isin(trials) & (buckets["series"] == "raw")].sort_values("low_s")
    counts, total = rows["count"].cumsum(), int(rows["count"].sum())
    found: list[float | None] = []
    for name in HELD_METRICS:
        share = PERCENTILES[name].percent / 100
        is_known = total * (1 - share) >= SAMPLES_BEYOND
        found.append(float(rows["high_s"][counts >= share * total].iloc[0]) if is_known else None)
    return found


def limit_clause(curves: Mapping[str, LoadCurve], cells: Sequence[str], names: Mapping[str, str]) -> str | None:
    """Return what limits the cells of a ratio, as a clause; None where it is the CPU or unknown for all of them."""
    limits = [curves[cell].limit for cell in cells if cell in curves]
    if len(limits) < len(cells) or all(limit.kind in {"cpu", "unknown"} for limit in limits):
        return None
    if len({limit.clause for limit in limits}) == 1:
        return f"each {limits[0].clause}"
    return ", ".join(f"{names[cell]} {limit.clause}" for cell, limit in zip(cells, limits, strict=True))


def held_sentences(held: HeldRate, pairs: Sequence[tuple[str, str]], names: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences on latencies of each cell and its baseline at the held rate, and parts of their difference."""
    for cell_id, baseline in pairs:
        cell, base, p99 = held.of(cell_id), held.of(baseline), held.ratio(cell_id, P99)
        at = f"At {units.requests_per_s(held.rate)}"
        if cell is None or base is None or cell.p50_s is None or base.p50_s is None:
            reason = next((each.reason for each in held.ratios if each.cell_id == cell_id and each.reason), None)
            why = f": {reason}" if reason else ""
            yield f"{at} the latencies of {names[cell_id]} and {names[baseline]} cannot be compared{why}."
            continue
        tail = ""
        if cell.p99_s is not None and base.p99_s is not None:
            times = _times(p99, cell.p99_s / base.p99_s)
            tail = f" (p99 {units.seconds(cell.p99_s)} and {units.seconds(base.p99_s)}: {times})"
        yield (
            f"{at} {names[cell_id]} answered in {units.seconds(cell.p50_s)}, {names[baseline]} in "
            f"{units.seconds(base.p50_s)}{tail}."
        )
        parts = [each for each in held.parts if (each.cell_id, each.baseline_id) == (cell_id, baseline)]
        if (sentence := answer_time_sentence(parts, names)) is not None:
            yield sentence


def _times(ratio: Ratio | None, of_all: float) -> str:
    """Return the ratio over blocks with its interval; `of_all`, the ratio over all requests, where blocks have none."""
    if ratio is None or ratio.ratio is None or ratio.low is None or ratio.high is None:
        return f"{of_all:.2f}\N{MULTIPLICATION SIGN}"
    interval = f"{100 * ratio.confidence:.3g} % CI {ratio.low:.2f} to {ratio.high:.2f}"
    return f"{ratio.ratio:.2f}\N{MULTIPLICATION SIGN}, {interval}"
