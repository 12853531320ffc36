"""Differences between the responses of cells that a scenario declares as intended."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.levels import Levels

Trait = Literal["status", "header_bytes", "body_bytes", "body"]
"""Property in which the responses of two cells are compared."""


class ResponsePart(StrEnum):
    """Part of a response, as a person names it."""

    BODY = "body"
    STATUS = "status"
    HEADERS = "headers"

    @property
    def traits(self) -> tuple[Trait, ...]:
        """Traits that may differ where the part does."""
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
        min_length=1,
        description="properties of the responses that differ; two real servers nearly always differ in header_bytes",
        examples=[["header_bytes"]],
    )
    why: str = Field(
        min_length=1,
        description="reason, shown with every ratio that it affects",
        examples=["nginx sends headers of its own"],
    )
    cells: Levels = Field(
        default_factory=dict,
        description="levels that one of the two cells must have; empty: applies to all cells",
        examples=[{"stack": "nginx-go"}],
    )
    varies: bool = Field(
        default=False,
        description="also from one response to the next of the same cell, so that responses under load are not compared "
        "with the probe",
    )
