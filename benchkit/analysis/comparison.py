"""What a comparison comes to: ratios, what they rest on, and what is to be known before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from benchkit.analysis.claim_result import ClaimResult
from benchkit.analysis.gate import GateResult
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.resolution import Resolution
from benchkit.analysis.run_differences import FactDifference
from benchkit.models.base import Frozen
from benchkit.models.design import Design


class ComparedRun(Frozen):
    """A run that takes part."""

    run_id: str
    scenario: str
    scale: str
    seed: int
    design: Design
    status: str


class Comparison(Frozen):
    """Cells of a run against a baseline, or the same cells in two runs, the second over the first.

    `drift` (of hosts) and `asked` (of scenarios) hold what differs between two runs; `notices` are sentences that belong
    before any ratio. `alpha` is how often a family of comparisons of equal cells may show any difference, `level` the
    largest `p_holm` that shows one: less than `alpha` in runs that looked at their intervals to end.
    """

    mode: Literal["cells", "runs"]
    runs: tuple[ComparedRun, ...]
    metrics: tuple[str, ...]
    drift: tuple[FactDifference, ...] = ()
    asked: tuple[FactDifference, ...] = ()
    notices: tuple[str, ...] = ()
    alpha: float
    level: float
    ratios: tuple[Ratio, ...]
    resolution: Mapping[str, Resolution]
    """By metric, of comparisons within a run."""
    claims: tuple[ClaimResult, ...] = ()
    """What became of those of the scenario, of comparisons within a run; they are judged one by one, each by itself."""
    gate: GateResult | None = None

    @property
    def decides(self) -> str:
        """By which p a difference is shown, as a clause for people."""
        shown = f"differences are shown at {self.alpha:.0%} over all comparisons (Holm)"
        if self.level == self.alpha:
            return shown
        return f"{shown}, where p is at most {self.level:g}, as a run looked at its intervals to end"

    @property
    def controls(self) -> tuple[Ratio, ...]:
        """The ratios of cells to themselves under another name: the run's own noise."""
        return tuple(ratio for ratio in self.ratios if ratio.control)

    def frame(self) -> pd.DataFrame:
        """The ratios as a table, a row each; what is to be known beside one is a text."""
        columns = [name for name in Ratio.model_fields if name != "left_out"]
        rows = [
            {**ratio.model_dump(include=set(columns)), "remarks": "; ".join(ratio.remarks)} for ratio in self.ratios
        ]
        return pd.DataFrame(rows, columns=columns)
