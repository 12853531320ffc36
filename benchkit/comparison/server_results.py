"""The results of a run by server: rate, ratio to the baseline, latency, CPU and verdicts; the limit of a single one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.ratios import Ratio, measured_value
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.verdict_summary import VerdictCounts, count_verdicts
from benchkit.models.base import Frozen
from benchkit.models.metrics import CPU, P99, PERCENTILES, RPS
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


class MeasuredServer(Frozen):
    """One server: geometric means over its usable trials, or over all if none is usable; None where unknown."""

    cell_id: str
    label: str
    blocks: int
    rps: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate over its blocks."""
    latency: dict[str, float | None]
    """Latencies in seconds, by column of `trials`."""
    server_cpu_s_per_request: float | None = None
    limit: str
    """Sentence that says what limits the rate."""
    verdicts: VerdictCounts

    @property
    def sentence(self) -> str:
        """The rate with its interval."""
        if self.rps is None:
            return f"{self.label} has no result: no trial of it ended with a rate."
        interval = units.interval(self.low, self.high, units.rate)
        blocks = units.counted(self.blocks, "block")
        return (
            f"{self.label} handled {units.requests_per_s(self.rps)}{interval} ({blocks}); it is compared with nothing."
        )


def measure_server(data: RunData) -> MeasuredServer:
    """Return the results of the only cell of a stored run."""
    view = next(view for view in cell_views(data.manifest) if view.unsupported is None)
    trials = data.trials[is_comparable(data.trials)]
    rate, cpu = (_value(data, metric, view.cell_id) for metric in (RPS, CPU))
    return MeasuredServer(
        cell_id=view.cell_id,
        label=view.label,
        blocks=rate.blocks,
        rps=rate.ratio,
        low=rate.low,
        high=rate.high,
        latency={name: _value(data, name, view.cell_id).ratio for name in PERCENTILES},
        server_cpu_s_per_request=cpu.ratio,
        limit=describe_limit(trials, data.rows("verdicts"), data.rows("unchecked")),
        verdicts=count_verdicts(trials),
    )


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


class ServerResult(Frozen):
    """One cell of a run: geometric means over its usable trials, or over all if none is usable; None without trials."""

    cell_id: str
    label: str
    rps: float | None = None
    latency_p99_s: float | None = None
    server_cpu_s_per_request: float | None = None
    unusable: tuple[str, ...] = ()
    """Metrics without any usable trial."""
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
    ratios = {ratio.cell_id: ratio for ratio in compare_cells(data, [RPS]).ratios if not ratio.control}
    trials = data.trials[is_comparable(data.trials)]
    results = []
    for view in cell_views(data.manifest):
        if view.unsupported is not None:
            continue
        values = {metric: _value(data, metric, view.cell_id) for metric in (RPS, P99, CPU)}
        results.append(
            ServerResult(
                cell_id=view.cell_id,
                label=view.label,
                **{metric: value.ratio for metric, value in values.items()},
                unusable=tuple(metric for metric, value in values.items() if value.is_unusable),
                ratio=ratios.get(view.cell_id),
                verdicts=count_verdicts(trials[trials["cell_id"] == view.cell_id]),
            )
        )
    return tuple(results)


def _value(data: RunData, metric: str, cell_id: str) -> Ratio:
    return measured_value(data.trials, metric, cell_id, data.exclusions, data.alpha)
