"""Figures that a study published, for comparison with those that a run measures."""

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
    """Published figures of a cell.

    `cell` has the levels that identify it; if it matches several cells, the study did not distinguish them, and its
    figures are shown for each of them.
    """

    cell: Levels = Field(min_length=1, description="levels that identify the cell", examples=[{"stack": "go"}])
    figures: Mapping[Name, Figure] = Field(
        default_factory=dict,
        description="figures by column of `trials`, such as `rps`, in SI units",
        examples=[{"rps": 128403}],
    )
    shares: Mapping[Name, Share] = Field(
        default_factory=dict,
        description="cumulative shares of the CPU samples by function, such as `mcall`",
        examples=[{"mcall": 0.12}],
    )
    note: str | None = Field(
        default=None, min_length=1, description="remark about the conditions of the study", examples=["on eight cores"]
    )

    @model_validator(mode="after")
    def _has_a_figure(self) -> Self:
        if not (self.figures or self.shares):
            raise ValueError("has no figure; give figures or shares")
        return self

    @property
    def unknown(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Names of figures that no trial has, by field and name, each with the allowed names."""
        known = {"figures": (self.figures, tuple(METRICS)), "shares": (self.shares, tuple(STUDIED))}
        return {
            (field, name): allowed for field, (given, allowed) in known.items() for name in given if name not in allowed
        }


def published_of(scenario: Mapping[str, Any]) -> tuple[Published, ...]:
    """Return the published figures of a stored scenario."""
    return tuple(Published.model_validate(entry) for entry in scenario.get("published") or ())
