"""The order of a run's trials: randomised complete blocks, ABBA or sequential."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from benchkit.errors import InputError
from benchkit.models.design import Design, controlled
from benchkit.models.run import TrialKind

CELLS_OF_ABBA = 2


@dataclass(frozen=True)
class PlannedTrial:
    """One cell at one place of the order; block and position count from 1."""

    block: int
    position: int
    cell_id: str
    kind: TrialKind = "measure"
    """`calibrate`: at full speed or with a search for the capacity, before the first block as block 0. `control`: the
    second run of a cell in the block, or the unprofiled partner of a profiled trial."""
    round: int = 1
    """Repetition of the block: a block interrupted by a pause is repeated whole, as its next round."""

    probe: int = 0
    """Number of a probe in the search for the capacity of this trial, from 1; 0: the trial itself."""

    @property
    def title(self) -> str:
        """Name of the cell as displayed, marked if the trial is profiled."""
        notes = {"profile": " (profiled)", "calibrate": " (calibration)"}
        return self.cell_id + notes.get(self.kind, "")


def planned_trials(
    design: Design, cell_ids: Sequence[str], blocks: int, seed: int, groups: Sequence[Sequence[str]] = ()
) -> tuple[PlannedTrial, ...]:
    """Return the trials of a design in order, with those of control cells marked.

    With `groups` of cells, a sliced design has this number of blocks of each. Raises InputError if the number of cells
    does not fit the design.
    """
    match design:
        case "sliced" if groups:
            trials = grouped_blocks(groups, blocks, seed)
        case "blocks" | "sliced":
            trials = randomised_blocks(cell_ids, blocks, seed)
        case "abba":
            trials = abba(cell_ids, blocks, seed)
        case "sequential":
            trials = sequential(cell_ids, blocks)
    return tuple(replace(trial, kind="control") if controlled(trial.cell_id) else trial for trial in trials)


def calibration_trials(cell_ids: Sequence[str]) -> tuple[PlannedTrial, ...]:
    """Return a calibration for each of these cells, before the first block."""
    return tuple(PlannedTrial(0, position, cell, "calibrate") for position, cell in enumerate(cell_ids, start=1))


def randomised_blocks(cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Return every cell once per block, each block in an order drawn from the seed.

    Randomised complete blocks: drift over the run affects all cells alike (Montgomery, Design and Analysis of
    Experiments, ch. 4). The order of a block depends on the seed and its number alone, so that a longer run with the
    same seed begins like a shorter one.
    """
    return grouped_blocks((cell_ids,), blocks, seed)


def grouped_blocks(groups: Sequence[Sequence[str]], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Return randomised blocks of each group of cells in turn: block 1 has the cells of the first group.

    A cell that is in several groups, as a baseline, runs in a block of each.
    """
    trials: list[PlannedTrial] = []
    for block, group in enumerate(chain.from_iterable(repeat(groups, blocks)), start=1):
        order = list(group)
        random.Random(f"{seed}/{block}").shuffle(order)  # noqa: S311 - an order of trials, no secret
        trials += [PlannedTrial(block, position, cell) for position, cell in enumerate(order, start=1)]
    return tuple(trials)


def abba(cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Return two cells in the order ABBA or BAAB in every block, drawn from the seed.

    Drift that is linear within a block cancels out of its ratio (Cox, Planning of Experiments, 1958, ch. 14); drawing
    which cell comes first keeps the sign-flip test exact. Each block has four trials. Raises InputError for any other
    number of cells than two.
    """
    if len(cell_ids) != CELLS_OF_ABBA:
        raise InputError(f"an ABBA design compares two cells; there are {len(cell_ids)}", hint="use design: blocks")
    trials: list[PlannedTrial] = []
    for block in range(1, blocks + 1):
        one, other = random.Random(f"{seed}/{block}").sample(list(cell_ids), 2)  # noqa: S311 - an order, no secret
        trials += [PlannedTrial(block, place, cell) for place, cell in enumerate((one, other, other, one), start=1)]
    return tuple(trials)


def sequential(cell_ids: Sequence[str], blocks: int) -> tuple[PlannedTrial, ...]:
    """Return all trials of one cell, then all of the next; `block` counts the repetitions of the cell.

    Drift over the run is part of the ratios. The design exists to be compared with the others, and its
    results are labelled.
    """
    return tuple(
        PlannedTrial(block, position, cell)
        for position, cell in enumerate(cell_ids, start=1)
        for block in range(1, blocks + 1)
    )
