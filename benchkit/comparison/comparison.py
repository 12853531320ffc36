"""Result of a comparison: ratios, the runs they come from, and the notices to read first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from benchkit.comparison.answer import Answer
from benchkit.comparison.capacities import CellCapacity
from benchkit.comparison.claim_result import ClaimResult
from benchkit.comparison.gate import GateResult
from benchkit.comparison.ratio import Ratio
from benchkit.comparison.resolution import Resolution
from benchkit.comparison.run_data import ComparedRun
from benchkit.judge.run_differences import FactDifference
from benchkit.models.base import Frozen

_FRAME = (
    "metric",
    "cell_id",
    "baseline",
    "baseline_value",
    "value",
    "ratio",
    "low",
    "high",
    "p_holm",
    "outcome",
    "worth",
    "blocks",
    "reason",
    "remarks",
)
"""Columns of the table of ratios that a reader needs."""
_NOT_IN_FRAME = frozenset({"exclusions", "reservations", "uses_invalid", "is_unusable"})


class Comparison(Frozen):
    """Cells of a run relative to a baseline, or the same cells in two runs, the second relative to the first.

    `drift` (of hosts) and `asked` (of scenarios) hold the differences between two runs; `notices` are sentences to read
    before any ratio. `alpha` is the probability that a family of comparisons of equal cells shows any difference,
    `level` the largest `p_holm` that shows one: less than `alpha` in runs that may end early.
    """

    mode: Literal["cells", "runs"]
    runs: tuple[ComparedRun, ...]
    metrics: tuple[str, ...]
    drift: tuple[FactDifference, ...] = ()
    asked: tuple[FactDifference, ...] = ()
    notices: tuple[str, ...] = ()
    answer: Answer | None = None
    """The result in sentences; of a comparison without metrics of its own choice with p99 latency besides RPS."""
    alpha: float
    level: float
    ratios: tuple[Ratio, ...]
    capacities: tuple[CellCapacity, ...] = ()
    """Capacities of the cells, of the second run in a comparison of two; empty where none was searched for."""
    resolution: Mapping[str, Resolution]
    """Resolution by metric, of comparisons within a run."""
    claims: tuple[ClaimResult, ...] = ()
    """Results of the scenario's claims, of comparisons within a run; each claim is evaluated by itself."""
    gate: GateResult | None = None

    @property
    def decides(self) -> str:
        """Rule by which a difference is shown, as a clause."""
        shown = f"differences are shown at {self.alpha:.0%} over all comparisons (Holm)"
        if self.level == self.alpha:
            return shown
        return (
            f"{shown}; as the run could end early by its intervals, each of them is of {1 - self.level:.0%} and each "
            f"difference at p of at most {self.level:g}, which keeps {1 - self.alpha:.0%} and {self.alpha:.0%} over the run"
        )

    @property
    def controls(self) -> tuple[Ratio, ...]:
        """Ratios of cells to themselves under another name: the run's own noise."""
        return tuple(ratio for ratio in self.ratios if ratio.control)

    def frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return the ratios as a table, a row each; their remarks are one text.

        The columns are those that a reader needs; all fields of a ratio if `full`, most of them for further
        computation.
        """
        columns = [name for name in Ratio.model_fields if name not in _NOT_IN_FRAME] if full else list(_FRAME)
        rows = [
            {**ratio.model_dump(include=set(columns)), "remarks": "; ".join(ratio.remarks)} for ratio in self.ratios
        ]
        return pd.DataFrame(rows, columns=columns)
