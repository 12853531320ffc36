"""Designs beside randomised complete blocks: ABBA for two cells, the sequential one, controls, and runs that end early."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from benchkit.errors import InputError
from benchkit.models.design import Design, controlled
from benchkit.scenario.trial_order import PlannedTrial, schedule

CELLS_OF_ABBA = 2


def planned_trials(design: Design, cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """The order of trials of a design, those of controls marked. Raises InputError for cells that it cannot take."""
    match design:
        case "blocks":
            made = schedule(cell_ids, blocks, seed)
        case "abba":
            made = abba(cell_ids, blocks, seed)
        case "sequential":
            made = sequential(cell_ids, blocks)
    return tuple(
        replace(planned_trial, kind="control") if controlled(planned_trial.cell_id) else planned_trial
        for planned_trial in made
    )


def abba(cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Two cells, mirrored in every block: ABBA or BAAB, drawn for the block from the seed.

    Drift that is linear over a block falls out of its ratio altogether (Cox, Planning of Experiments, 1958, ch. 14);
    drawing which of the two comes first keeps the sign-flip test exact. Each block has four trials. Raises InputError
    for other than two cells.
    """
    if len(cell_ids) != CELLS_OF_ABBA:
        raise InputError(f"an ABBA design compares two cells; there are {len(cell_ids)}", hint="use design: blocks")
    made: list[PlannedTrial] = []
    for block in range(1, blocks + 1):
        one, other = random.Random(f"{seed}/{block}").sample(list(cell_ids), 2)  # noqa: S311 - an order, no secret
        made += [PlannedTrial(block, position, cell) for position, cell in enumerate((one, other, other, one), start=1)]
    return tuple(made)


def sequential(cell_ids: Sequence[str], blocks: int) -> tuple[PlannedTrial, ...]:
    """All trials of a cell, then all of the next; `block` counts the repetitions of the cell.

    Whatever changes over the run is in the ratios. It is here to be shown beside the others, and is labelled.
    """
    return tuple(
        PlannedTrial(block, position, cell)
        for position, cell in enumerate(cell_ids, start=1)
        for block in range(1, blocks + 1)
    )
