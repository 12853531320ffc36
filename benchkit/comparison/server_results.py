"""The results of a run by server: rate, ratio to the baseline, latency, CPU and verdicts; the limit of a single one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.ratios import Ratio, measured_value
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.verdicts import VerdictCounts, count_verdicts
from benchkit.models.base import Frozen
from benchkit.models.metrics import CPU, PERCENTILES, RPS
from benchkit.stats.samples import is_comparable

UNKNOWN = "What limits it is not known"
DECIDING = {
    "noisy-host": UNKNOWN,
    "generator-saturated": "The load tool is the limit: the server may be faster",
    "link-saturated": "The network is the limit",
    "server-idle": "Server CPU, load tool and links of known rate are not the limit: the server waits, or needs more connections",
}
"""Sentences that follow from a finding of each check, in the order in which these decide."""
CPU_IS_LIMIT = "The server's CPU is the limit."


class ServerResult(Frozen):
    """One cell of a run: geometric means over its usable trials, or over all if none is usable; None without trials."""

    cell_id: str
    label: str
    blocks: int = 0
    rps: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate over its blocks."""
    latency: Mapping[str, float | None] = {}
    """Latencies in seconds, by column of `trials`."""
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


def server_results(data: RunData) -> tuple[ServerResult, ...]:
    """Return a row for each cell that the hosts support, in the order of the plan."""
    ratios = {ratio.cell_id: ratio for ratio in compare_cells(data, [RPS]).ratios if not ratio.control}
    trials = data.trials[is_comparable(data.trials)]
    results = []
    for view in cell_views(data.manifest):
        if view.unsupported is not None:
            continue
        of_cell = trials[trials["cell_id"] == view.cell_id]
        values = {
            metric: measured_value(data.trials, metric, view.cell_id, data.exclusions, data.alpha)
            for metric in (RPS, *PERCENTILES, CPU)
        }
        results.append(
            ServerResult(
                cell_id=view.cell_id,
                label=view.label,
                blocks=values[RPS].blocks,
                rps=values[RPS].ratio,
                low=values[RPS].low,
                high=values[RPS].high,
                latency={name: values[name].ratio for name in PERCENTILES},
                server_cpu_s_per_request=values[CPU].ratio,
                unusable=tuple(metric for metric, value in values.items() if value.is_unusable),
                ratio=ratios.get(view.cell_id),
                limit=describe_limit(of_cell, data.rows("verdicts"), data.rows("unchecked")),
                verdicts=count_verdicts(of_cell),
            )
        )
    return tuple(results)


def describe_limit(trials: pd.DataFrame, verdicts: pd.DataFrame, unchecked: pd.DataFrame) -> str:
    """Return the sentence on what limits the rate of a cell, given its rows of these tables.

    A finding decides if most trials have it.
    """
    trial_ids = set(trials["trial_id"])

    def of_most(table: pd.DataFrame, check: str) -> pd.DataFrame | None:
        rows = table[(table["check"] == check) & table["trial_id"].isin(trial_ids)]
        return rows if 2 * rows["trial_id"].nunique() > len(trial_ids) else None

    for check, sentence in DECIDING.items():
        if (found := of_most(verdicts, check)) is not None:
            return f"{sentence} ({found['seen'].iloc[-1]})."
    if (skipped := of_most(unchecked, "server-idle")) is not None:
        return f"{UNKNOWN}: {skipped['why'].iloc[-1]}."
    return CPU_IS_LIMIT if trial_ids else f"{UNKNOWN}: no trial ended."
