"""Figures that a study printed, to be set beside those that a run measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from benchkit.models.base import Frozen
from benchkit.models.categories import STUDIED
from benchkit.models.levels import Levels, Name
from benchkit.models.metrics import METRICS

Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Published(Frozen):
    """What a study printed of a cell.

    `cell` has as many levels as tell it; where it matches several cells the study did not tell them apart, and its
    figures stand beside each of them.
    """

    cell: Levels = Field(min_length=1)
    figures: Mapping[Name, Figure] = Field(
        default_factory=dict, description="by column of `trials`: `rps`, ... in SI units"
    )
    shares: Mapping[Name, Share] = Field(
        default_factory=dict, description="cumulative shares of the CPU samples, by function: `mcall`, `schedule`, ..."
    )
    note: str | None = Field(default=None, min_length=1, description="what was otherwise there, in words")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.figures or self.shares):
            raise ValueError("says no figure; give figures or shares")
        return self

    @property
    def unknown(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Figures that no trial has, by field and name, each with the names that there are."""
        there = {"figures": (self.figures, tuple(METRICS)), "shares": (self.shares, tuple(STUDIED))}
        return {
            (field, name): allowed for field, (given, allowed) in there.items() for name in given if name not in allowed
        }


def published_of(scenario: Mapping[str, Any]) -> tuple[Published, ...]:
    """The published figures of a stored scenario."""
    return tuple(Published.model_validate(each) for each in scenario.get("published") or ())
