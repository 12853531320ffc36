"""The results of a run by server: rate and its limit, ratio to the baseline, latency, CPU and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.load_curves import HeldLatency, HeldRate, cell_curves
from benchkit.comparison.ratios import Ratio, measured_value
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.load_curve import LoadCurve
from benchkit.judge.verdicts import VerdictCounts, count_verdicts
from benchkit.models.base import Frozen
from benchkit.models.metrics import CPU, RPS
from benchkit.stats.samples import is_comparable

UNKNOWN = "Its limit is unknown"
DECIDING = {
    "noisy-host": UNKNOWN,
    "generator-saturated": "The load tool is the limit: the server may be faster",
    "link-saturated": "The network is the limit",
}
"""Sentence about the limit by the check that found it; the first check with findings decides."""


class ServerResult(Frozen):
    """One cell of a run: geometric means over its usable trials, or over all if none is usable; None without trials."""

    cell_id: str
    label: str
    blocks: int = 0
    rps: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate over its blocks."""
    connections: int | None = None
    """Connections of its trials."""
    curve: LoadCurve | None = None
    """Its load curve; None: the run has none."""
    held: HeldLatency | None = None
    """Its latencies at the held rate; None: the run has no phase at one."""
    server_cpu_s_per_request: float | None = None
    unusable: tuple[str, ...] = ()
    """Metrics without any usable trial."""
    ratio: Ratio | None = None
    """Its rate relative to the baseline's; None for the baseline."""
    limit: str = UNKNOWN
    """Sentence on what limits the rate."""
    verdicts: VerdictCounts = VerdictCounts()

    @property
    def sentence(self) -> str:
        """The rate with its interval, for a server that is compared with nothing."""
        if self.rps is None:
            return f"{self.label} has no result: no trial of it ended with a rate."
        interval = units.interval(self.low, self.high, units.rate)
        blocks = units.counted(self.blocks, "block")
        return (
            f"{self.label} handled {units.requests_per_s(self.rps)}{interval} ({blocks}); it is compared with nothing."
        )


def has_answer(results: Sequence[ServerResult]) -> bool:
    """Return True if anything is compared: some server has a usable ratio, or the only one a usable rate."""
    if len(results) == 1:
        return results[0].rps is not None and RPS not in results[0].unusable
    ratios = [result.ratio for result in results if result.ratio is not None]
    return any(ratio.ratio is not None and not ratio.is_unusable for ratio in ratios)


def server_results(data: RunData, held: HeldRate | None = None) -> tuple[ServerResult, ...]:
    """Return the result of each cell that the hosts support, in the order of the plan; `held` comes from `held_of`."""
    curves = {each.cell_id: each.curve for each in cell_curves(data)}
    ratios = {ratio.cell_id: ratio for ratio in compare_cells(data, [RPS]).ratios if not ratio.control}
    trials = data.trials[is_comparable(data.trials)]
    results = []
    for view in cell_views(data.manifest):
        if view.unsupported is not None:
            continue
        of_cell = trials[trials["cell_id"] == view.cell_id]
        values = {
            metric: measured_value(data.trials, metric, view.cell_id, data.exclusions, data.alpha)
            for metric in (RPS, CPU)
        }
        results.append(
            ServerResult(
                cell_id=view.cell_id,
                label=view.label,
                blocks=values[RPS].blocks,
                rps=values[RPS].ratio,
                low=values[RPS].low,
                high=values[RPS].high,
                connections=None if of_cell.empty else int(of_cell["connections"].iloc[-1]),
                curve=curves.get(view.cell_id),
                held=None if held is None else held.of(view.cell_id),
                server_cpu_s_per_request=values[CPU].ratio,
                unusable=tuple(metric for metric, value in values.items() if value.is_unusable),
                ratio=ratios.get(view.cell_id),
                limit=describe_limit(of_cell, data.rows("verdicts"), curves.get(view.cell_id)),
                verdicts=count_verdicts(of_cell),
            )
        )
    return tuple(results)


def describe_limit(trials: pd.DataFrame, verdicts: pd.DataFrame, curve: LoadCurve | None) -> str:
    """Return a sentence on what limits the rate of a cell: a finding of most of its trials, else its load curve."""
    trial_ids = set(trials["trial_id"])
    for check, sentence in DECIDING.items():
        rows = verdicts[(verdicts["check"] == check) & verdicts["trial_id"].isin(trial_ids)]
        if 2 * rows["trial_id"].nunique() > len(trial_ids):
            return f"{sentence} ({rows['seen'].iloc[-1]})."
    if curve is not None:
        return f"{curve.limit.sentence[:1].upper()}{curve.limit.sentence[1:]}."
    return f"{UNKNOWN}: the run measured no load curve." if trial_ids else f"{UNKNOWN}: no trial ended."
