"""Results of each cell: capacities under an objective, and classes of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd
from pydantic import Field

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.ratios import Ratio, measured_value, value_alone, with_outcomes
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.verdicts import group_findings
from benchkit.models.base import Frozen
from benchkit.models.capacity import goal_of, searches_capacity
from benchkit.models.metrics import CAPACITY, P50, P99
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.stats.samples import describe_reasons, is_comparable, take_samples


class CellCapacity(Frozen, serialize_by_alias=True):
    """The highest rate at which a cell keeps an objective, with a 95 % interval.

    It is the geometric mean over the usable searches; if none is usable, over all, with an `exclusion`. From 3 searches
    on, the interval is the t interval of that mean; with fewer, it spans the intervals of the searches.
    """

    cell_id: str
    label: str
    objective: str | None
    """The limits of latencies as a clause; None where they differ between cells."""
    searches: int
    rps: float | None = None
    low: float | None = None
    high: float | None = None
    at_least: float | None = None
    """Highest rate at which a search kept the objective, where no search reached the server's limit."""
    exclusion: str | None = Field(default=None, serialization_alias="doubts")
    """Reasons why no search is used in comparisons; None: some are used."""

    @property
    def is_known(self) -> bool:
        """True if there is a capacity, or a lower bound of it."""
        return self.rps is not None or self.at_least is not None

    @property
    def figure(self) -> str:
        """The capacity with its unit, or its lower bound."""
        if self.rps is not None:
            return units.requests_per_s(self.rps)
        return "unknown" if self.at_least is None else f"at least {units.requests_per_s(self.at_least)}"

    @property
    def interval(self) -> str:
        """The interval as a clause with a comma before it; empty where there is none."""
        return units.interval(self.low, self.high, units.rate)

    @property
    def sentence(self) -> str:
        """The capacity, its objective and its interval."""
        objective = f" with {self.objective}" if self.objective else ""
        searches = units.counted(self.searches, "search", "searches")
        if not self.is_known:
            return f"{self.label}: the highest rate{objective} is unknown after {searches}."
        excluded = f"; excluded from comparisons ({self.exclusion})" if self.exclusion and self.rps is not None else ""
        return f"{self.label}: {self.figure}{objective}{self.interval} ({searches}){excluded}."


def cell_capacities(data: RunData) -> tuple[CellCapacity, ...]:
    """Return the capacity of each cell, in the order of the plan; empty for a run that searches for none in blocks."""
    if not searches_capacity(data.manifest.scenario):
        return ()
    goal = goal_of(data.manifest.scenario)
    trials = data.trials[is_comparable(data.trials)]
    objective = None if goal is None else goal.slo.text
    return tuple(
        _capacity(data, trials[trials["cell_id"] == view.cell_id], view.cell_id, view.label, objective)
        for view in cell_views(data.manifest)
        if view.unsupported is None
    )


def capacity_findings(data: RunData) -> list[str]:
    """Return the findings about the capacities of a stored run, each once."""
    findings = group_findings(data.trials[is_comparable(data.trials)], data.rows("verdicts"))
    return [finding.text for finding in findings if CAPACITY in finding.metrics]


def _capacity(data: RunData, rows: pd.DataFrame, cell_id: str, label: str, objective: str | None) -> CellCapacity:
    excluded = data.samples(CAPACITY).excluded_of(cell_id)
    reasons = {each.trial_id for each in excluded}
    bounded = rows[rows["capacity_high"].notna()]
    usable = bounded[~bounded["trial_id"].isin(reasons)]
    used = bounded if usable.empty else usable
    exclusion = describe_reasons(excluded) if usable.empty and excluded else None
    common = {"cell_id": cell_id, "label": label, "objective": objective, "searches": len(rows), "exclusion": exclusion}
    if used.empty:
        kept = rows["capacity_low"].dropna()
        return CellCapacity(**common, at_least=None if kept.empty else float(kept.max()))
    mean = value_alone(take_samples(used, CAPACITY), cell_id, data.alpha)
    low, high = mean.low, mean.high
    if len(used) < MIN_BLOCKS:
        low, high = float(used["capacity_low"].min()), float(used["capacity_high"].max())
    return CellCapacity(**common, rps=mean.ratio, low=low, high=high)


CLASS_METRICS = (P99, P50)
"""Metrics of each class. A rate is none: the target rate, or the order of a log, sets the rate of every class."""


def class_ratios(
    runs: Sequence[RunData], compare: Callable[[Sequence[RunData], Sequence[str]], Sequence[Ratio]], alpha: float
) -> tuple[Ratio, ...]:
    """Return the ratios of each class of requests that all `runs` have, by `compare`; empty without classes.

    Each metric is one family of comparisons over all classes.
    """
    frames = [_trials_by_class(run) for run in runs]
    names = [name for name in frames[0] if all(name in each for each in frames)]
    ratios = [
        ratio.model_copy(update={"request_class": name})
        for name in names
        for ratio in compare(
            [replace(run, trials=frame[name]) for run, frame in zip(runs, frames, strict=True)], CLASS_METRICS
        )
        if not ratio.control
    ]
    return tuple(
        ratio
        for metric in CLASS_METRICS
        for ratio in with_outcomes([each.without_outcome() for each in ratios if each.metric == metric], alpha)
    )


class ClassResult(Frozen):
    """One class of requests of a cell: geometric means over its usable trials, or over all if none is usable."""

    cell_id: str
    label: str
    request_class: str
    share: float
    """Share of the requests of these trials that are of this class."""
    latency_p50_s: float | None
    latency_p99_s: float | None
    is_unusable: bool = False
    """True if no trial has usable latencies: the means are then over all trials."""
    ratios: tuple[Ratio, ...] = ()
    """Its ratios to the baseline, by metric, p99 first; empty for the baseline."""


def class_results(data: RunData, ratios: Sequence[Ratio]) -> tuple[ClassResult, ...]:
    """Return each class of each cell, in the order of plan and load; `ratios` come from `class_ratios`."""
    frames = _trials_by_class(data)
    if not frames:
        return ()
    trials = data.trials[is_comparable(data.trials)][["trial_id", "cell_id"]]
    rows = data.rows("classes").merge(trials, on="trial_id")
    sent = (rows["requests"] + rows["errors"]).groupby([rows["cell_id"], rows["request_class"]]).sum()
    results = []
    for view in cell_views(data.manifest):
        for name, frame in frames.items():
            if (view.cell_id, name) not in sent.index:
                continue
            p99, p50 = (
                measured_value(frame, each, view.cell_id, data.exclusions, data.alpha) for each in CLASS_METRICS
            )
            results.append(
                ClassResult(
                    cell_id=view.cell_id,
                    label=view.label,
                    request_class=name,
                    share=float(sent[view.cell_id, name] / sent[view.cell_id].sum()),
                    latency_p50_s=p50.ratio,
                    latency_p99_s=p99.ratio,
                    is_unusable=p50.is_unusable,
                    ratios=tuple(each for each in ratios if (each.cell_id, each.request_class) == (view.cell_id, name)),
                )
            )
    return tuple(results)


def _trials_by_class(run: RunData) -> dict[str, pd.DataFrame]:
    """Return the trials of a run for each class, with the latencies of that class alone."""
    rows = run.rows("classes")
    if rows.empty:
        return {}
    frames = {}
    for name, of_class in rows.groupby("request_class", sort=False):
        latencies = of_class.set_index("trial_id")[list(CLASS_METRICS)].reindex(run.trials["trial_id"])
        frames[str(name)] = run.trials.assign(**{metric: latencies[metric].to_numpy() for metric in CLASS_METRICS})
    return frames
