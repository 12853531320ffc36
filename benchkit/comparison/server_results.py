"""The results of a run as a table of its cells: rate, ratio to the baseline, latency, CPU and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.ratio import Ratio
from benchkit.comparison.run_data import RunData
from benchkit.judge.summary import VerdictCounts, count_verdicts
from benchkit.models.base import Frozen
from benchkit.models.metrics import P99
from benchkit.stats.samples import Exclusion, is_comparable, take_samples

RPS, CPU = "rps", "server_cpu_s_per_request"


class ServerResult(Frozen):
    """One cell of a run: geometric means over its usable trials, or over all where none is; None without any."""

    cell_id: str
    label: str
    rps: float | None = None
    latency_p99_s: float | None = None
    server_cpu_s_per_request: float | None = None
    unusable: tuple[str, ...] = ()
    """The metrics of which no trial is usable."""
    ratio: Ratio | None = None
    """Its rate relative to the baseline's; None for the baseline."""
    verdicts: VerdictCounts = VerdictCounts()


def has_answer(results: Sequence[ServerResult]) -> bool:
    """Return True if anything is compared: some server has a usable ratio, or the only one a usable rate."""
    if len(results) == 1:
        return results[0].rps is not None and RPS not in results[0].unusable
    ratios = [result.ratio for result in results if result.ratio is not None]
    return any(ratio.ratio is not None and not ratio.is_unusable for ratio in ratios)


def server_results(data: RunData) -> tuple[ServerResult, ...]:
    """Return a row for each cell that the hosts support, in the order of the plan."""
    metrics = RPS, P99, CPU
    means = {metric: _means(data, metric, data.exclusions) for metric in metrics}
    measured = {metric: _means(data, metric) for metric in metrics}
    ratios = {ratio.cell_id: ratio for ratio in compare_cells(data, [RPS]).ratios if not ratio.control}
    trials = data.trials[is_comparable(data.trials)]
    verdicts = {str(cell_id): count_verdicts(rows) for cell_id, rows in trials.groupby("cell_id")}
    return tuple(
        ServerResult(
            cell_id=view.cell_id,
            label=view.label,
            **{metric: means[metric].get(view.cell_id, measured[metric].get(view.cell_id)) for metric in metrics},
            unusable=tuple(
                metric for metric in metrics if view.cell_id in measured[metric].keys() - means[metric].keys()
            ),
            ratio=ratios.get(view.cell_id),
            verdicts=verdicts.get(view.cell_id, VerdictCounts()),
        )
        for view in cell_views(data.manifest)
        if view.unsupported is None
    )


def _means(data: RunData, metric: str, exclusions: Iterable[Exclusion] = ()) -> Mapping[str, float]:
    """Return the geometric mean of a metric by cell, of those cells that have a trial which is not excluded."""
    samples = take_samples(data.trials, metric, exclusions)
    known = {cell_id: samples.known(cell_id) for cell_id in samples.cells}
    return {cell_id: math.exp(float(np.mean(logs))) for cell_id, logs in known.items() if len(logs)}
