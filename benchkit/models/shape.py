"""Target rates that change within a trial: a step, a ramp or a spike, as stages of constant rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from benchkit.models.base import Frozen

NS_PER_S = 1_000_000_000
PIECES_PER_S = 10
"""Pieces of constant rate of which slopes are made."""


class RateStage(Frozen):
    """A number of requests, each due an interval after the one before."""

    requests: PositiveInt
    interval_ns: PositiveInt

    @property
    def text(self) -> str:
        """The stage as the programs of load hosts read it: `500x2000000ns`."""
        return f"{self.requests}x{self.interval_ns}ns"


class Shape(Frozen):
    """The course of a target rate: below it at first, up to it for a time, and below it again."""

    form: Literal["step", "ramp", "spike"] = Field(
        description="step: at the target rate for the whole time; ramp: rises to it in a line, then falls at once; spike: rises "
        "to it in a line and falls again likewise"
    )
    base: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.5, description="share of the target rate before and after", examples=[0.4]
    )
    start_s: NonNegativeInt = Field(description="whole seconds at the base before it begins", examples=[5])
    length_s: PositiveInt = Field(description="whole seconds that it takes", examples=[5])

    @property
    def end_s(self) -> int:
        """Time from the start of the window at which the rate is back at its base."""
        return self.start_s + self.length_s

    def stages(self, rate: float, duration_s: float) -> tuple[RateStage, ...]:
        """Return the requests of a window with this target rate."""
        stages, sent, due = [], 0, 0.0
        for length_s, share in self._pieces(duration_s):
            due += rate * share * length_s
            requests = round(due) - sent
            if requests > 0:
                stages.append(RateStage(requests=requests, interval_ns=int(length_s * NS_PER_S) // requests))
                sent += requests
        return tuple(stages)

    def _pieces(self, duration_s: float) -> Iterator[tuple[float, float]]:
        """Yield length and share of the target rate of each piece of a window."""
        if self.start_s:
            yield float(self.start_s), self.base
        if self.form == "step":
            yield float(self.length_s), 1.0
        else:
            number = self.length_s * PIECES_PER_S
            for piece in range(number):
                middle = (piece + 0.5) / number
                height = middle if self.form == "ramp" else 1 - abs(2 * middle - 1)
                yield 1 / PIECES_PER_S, self.base + (1 - self.base) * height
        if duration_s > self.end_s:
            yield duration_s - self.end_s, self.base
