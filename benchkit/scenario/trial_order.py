"""The order of trials: randomised complete blocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchkit.models.run import TrialKind


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to come; block and position count from 1."""

    block: int
    position: int
    cell_id: str
    kind: TrialKind = "measure"
    """`control`: run to be compared with itself (a cell's second name, or what a profiled trial stands beside)."""

    @property
    def title(self) -> str:
        """The cell, and whether it will be profiled: what people are shown."""
        return f"{self.cell_id} (profiled)" if self.kind == "profile" else self.cell_id

    round: int = 1
    """Of the block: one that was cut by a pause is run again whole, as its next round."""


def schedule(cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Every cell once in each block, in an order drawn for the block from the seed.

    Randomised complete blocks: drift over the run falls on all cells alike (Montgomery, Design and Analysis of
    Experiments, ch. 4). The order of a block depends on the seed and the block alone, so that a longer run of the
    same seed begins like a shorter one.
    """
    planned_trials: list[PlannedTrial] = []
    for block in range(1, blocks + 1):
        order = list(cell_ids)
        random.Random(f"{seed}/{block}").shuffle(order)  # noqa: S311 - an order of trials, no secret
        planned_trials += [PlannedTrial(block, position, cell) for position, cell in enumerate(order, start=1)]
    return tuple(planned_trials)
