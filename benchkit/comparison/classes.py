"""Comparison by class of requests: what each cell answers to a class, and the ratios of each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.ratios import Ratio, measured_value, with_outcomes
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import Frozen
from benchkit.models.metrics import P50, P99
from benchkit.stats.samples import is_comparable

CLASS_METRICS = (P99, P50)
"""Metrics of each class. Rates are not among them: an open loop, or the order of a log, sets every class's rate."""

Compare = Callable[[Sequence[RunData], Sequence[str]], Sequence[Ratio]]
"""Function that compares the cells of one run, or two runs, in these metrics."""


def class_ratios(runs: Sequence[RunData], compare: Compare, alpha: float) -> tuple[Ratio, ...]:
    """Return the ratios of each class of requests that all `runs` have; empty without classes.

    Each metric is one family of comparisons over all classes: a difference by chance is as rare as among the cells of a
    run.
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
