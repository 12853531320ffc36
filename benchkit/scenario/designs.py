"""Designs beside randomised complete blocks: ABBA for two cells, the sequential one, controls, and runs that end early."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.scenario.trial_order import PlannedTrial, schedule
from benchkit.scenario.vocabulary import Name

Design = Literal["blocks", "abba", "sequential"]
"""`blocks`: every cell once a block, in random order; `abba`: two cells, each twice a block, mirrored; `sequential`: all
trials of a cell, then all of the next, which lets drift pass for a difference."""

CONTROL = "~control"
"""What the second name of a cell ends with; no level can hold the character."""

CELLS_OF_ABBA = 2


class Until(Frozen):
    """When a run may end before its blocks are done: every ratio known well enough, or its time spent.

    The ratios are those of cells to their baseline in each of the metrics, and those of claims in theirs.
    """

    precision: float = Field(gt=0, lt=1, description="0.05: intervals reach at most 5 % to either side")
    metrics: tuple[Name, ...] = Field(default=("rps",), min_length=1)
    min_blocks: PositiveInt = Field(
        default=7, ge=6, description="7 can show a difference by the sign-flip test at the level of such runs"
    )
    budget_s: PositiveFloat | None = None


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


def control_of(cell_id: str) -> str:
    """The second name of a cell: its ratio to the first is the run's own noise."""
    return cell_id + CONTROL


def controlled(cell_id: str) -> str | None:
    """The cell that this is the second name of; None for a cell of its own."""
    return cell_id.removesuffix(CONTROL) if cell_id.endswith(CONTROL) else None


def design_of(scenario: Mapping[str, Any]) -> Design:
    """The design of a stored scenario."""
    design = scenario.get("design")
    return design if design in {"abba", "sequential"} else "blocks"


def until_of(scenario: Mapping[str, Any]) -> Until | None:
    """When a run of the stored scenario was to end early; None: after its blocks."""
    until = scenario.get("until")
    return None if until is None else Until.model_validate(until)
