"""All comparisons that are shown of a run: metric by metric, what its scenario asks about and servers are judged by."""

from __future__ import annotations

from benchkit.analysis.compare import METRICS, compare_cells
from benchkit.analysis.comparison import Comparison
from benchkit.analysis.run_data import Data
from benchkit.models.claims import claims_of
from benchkit.models.design import until_of

BESIDE = ("latency_p99_s", "server_cpu_s_per_request")
"""Metrics that are shown where trials have them, asked for or not, of runs that a person can look through."""

_MANY_CELLS = 100


def overview(data: Data) -> tuple[Comparison, ...]:
    """The cells over their baseline, a comparison for each metric; only those with a ratio.

    Each metric is a family of comparisons of its own, as `benchkit compare RUN --metric M` has it.
    """
    until = until_of(data.manifest.scenario)
    claimed = (claim.metric for claim in claims_of(data.manifest.scenario))
    beside = BESIDE if len(data.manifest.cells) <= _MANY_CELLS else ()
    metrics = dict.fromkeys((*METRICS, *(until.metrics if until else ()), *claimed, *beside))
    found = (compare_cells(data, [metric]) for metric in metrics if data.trials[metric].notna().any())
    return tuple(one for one in found if any(ratio.ratio is not None for ratio in one.ratios))
