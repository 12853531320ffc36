"""The design of a run: order of trials, early end, names of controls, intended differences, and the words of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from benchkit.models.base import STACK, Frozen, Levels, Name
from benchkit.models.metrics import metric_column

Design = Literal["blocks", "sequential", "sliced"]
"""Order of trials.

`blocks`: every cell once per block, in random order. `sequential`: all trials of one cell, then all of the next, so
that drift can be mistaken for a difference. `sliced`: in each block all cells are up together. The load goes to one
after the other in short slices, each round of them in random order.
"""

SLICE_S = 0.25
"""Default length of a slice, in seconds."""

CONTROL = "~control"
"""Suffix of a control cell's name; no level can contain the character `~`."""
HELD_WINDOW = 0.5
"""Window of a trial at a held rate relative to that of a cell's other trial: for percentiles half of the answers do."""
HELD = "~held"
"""Suffix of the name of a cell in the plan of its second phase, at a held rate; its trials have the cell's own name."""


ALPHA_PER_LOOK = 0.03
"""Error rate of each interval and test of an adaptive run that keeps 0.05 overall.

A run that stops when its intervals are narrow sometimes stops because its noise happened to look small. At 0.05 such
fixed-width intervals cover 92.6 % (Anscombe, Sequential estimation, 1953; Chow and Robbins, On the asymptotic theory of
fixed-width sequential confidence intervals, 1965). One stricter level at every look corrects that (as Pocock, 1977,
does for tests). This one is from simulation, from 6 blocks to 60 and for one ratio, the worst case. Coverage is at
least 95.2 % under every simulated noise and precision. `make bench` prints the table.
"""

Trait = Literal["status", "header_bytes", "body_bytes", "body"]
"""Property in which the responses of two cells are compared."""


class StopCondition(Frozen):
    """Condition under which a run ends before its last block: ratios precise enough, or time budget spent.

    These are the ratios of cells to their baseline in each of the metrics, and the ratios of claims in their own
    metrics.
    """

    precision: float = Field(gt=0, lt=1, description="0.05: intervals reach at most 5 % either way", examples=[0.05])
    metrics: tuple[Annotated[Name, AfterValidator(metric_column)], ...] = Field(
        default=("rps",), min_length=1, description="metrics with intervals to be precise"
    )
    min_blocks: PositiveInt = Field(
        default=7, ge=6, description="7 are enough for the sign-flip test to show a difference"
    )
    excludes: PositiveFloat | None = Field(
        default=None, description="threshold: the run also ends once every interval excludes it", examples=[0.95]
    )
    alpha: float = Field(
        default=ALPHA_PER_LOOK,
        gt=0,
        le=ALPHA_PER_LOOK,
        description="error rate of each interval; 0.03 keeps 0.05 over the run",
    )
    budget_s: PositiveFloat | None = Field(
        default=None,
        description="seconds after which no further block begins, but the three that an interval needs",
        examples=[3600],
    )


def control_of(cell_id: str) -> str:
    """Return the name of a cell's control, whose ratio to the cell is the noise of the run."""
    return cell_id + CONTROL


def controlled(cell_id: str) -> str | None:
    """Return the cell that a control repeats, or None for a cell that is not a control."""
    return cell_id.removesuffix(CONTROL) if cell_id.endswith(CONTROL) else None


def held_of(cell_id: str) -> str:
    """Return the name under which a cell is planned for its phase at a held rate."""
    return cell_id + HELD


def is_held(cell_id: str) -> bool:
    """Return True for a cell as it is planned for its phase at a held rate."""
    return cell_id.endswith(HELD)


def is_original(cell_id: str) -> bool:
    """Return True for a cell that is neither a control nor a phase at a held rate."""
    return controlled(cell_id) is None and not is_held(cell_id)


def compared_cell(cell_id: str) -> str:
    """Return the name of the cell whose trials these are: without the suffix of its phase at a held rate."""
    return cell_id.removesuffix(HELD)


def design_of(scenario: Mapping[str, Any]) -> Design:
    """Return the design of a stored scenario."""
    design = scenario.get("design")
    return design if design in {"sequential", "sliced"} else "blocks"


def until_of(scenario: Mapping[str, Any]) -> StopCondition | None:
    """Return the condition under which a run of the stored scenario ends early, or None."""
    until = scenario.get("until")
    return None if until is None else StopCondition.model_validate(until)


def stack_of(scenario: Mapping[str, Any], levels: Levels) -> Mapping[str, Any]:
    """Return the stack of the cell with these levels in a stored scenario; empty where it is not known."""
    stacks: Mapping[str, Mapping[str, Any]] = scenario.get("stacks") or {}
    only = next(iter(stacks.values())) if len(stacks) == 1 else None
    return stacks.get(str(levels.get(STACK))) or only or {}


class ResponsePart(StrEnum):
    """Part of a response, as a person names it."""

    BODY = "body"
    STATUS = "status"
    HEADERS = "headers"

    @property
    def traits(self) -> tuple[Trait, ...]:
        """Traits that may differ where the part differs."""
        match self:
            case ResponsePart.BODY:
                return ("body_bytes", "body")
            case ResponsePart.STATUS:
                return ("status",)
            case ResponsePart.HEADERS:
                return ("header_bytes",)


class Difference(Frozen):
    """A difference between the responses of compared cells that the scenario intends."""

    what: tuple[Trait, ...] = Field(
        min_length=1, description="properties of the responses that differ", examples=[["header_bytes"]]
    )
    why: str = Field(
        min_length=1,
        description="reason, shown with every ratio that it affects",
        examples=["nginx sends headers of its own"],
    )
    cells: Levels = Field(
        default_factory=dict,
        description="levels that one of the two cells must have; empty: any",
        examples=[{"stack": "nginx-go"}],
    )
    varies: bool = Field(default=False, description="true: they also vary between responses of one cell")


TERMS: Mapping[str, str] = MappingProxyType(
    {
        "cell": "one combination that is compared",
        "block": "one repetition of all cells, in random order",
        "slice": "a short turn of load within a block",
        "stack": "the servers of a cell",
        "trial": "one cell in one block",
        "suspect": "used with care",
        "invalid": "shown, and used in no ratio",
    }
)


def explain(*terms: str) -> str:
    """Return the meanings of words in one line: `cell: one combination that is compared · …`."""
    return " · ".join(f"{term}: {TERMS[term]}" for term in terms)
