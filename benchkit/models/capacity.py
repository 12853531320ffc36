"""The capacity of a server under an objective: what is asked for, and what a search found."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from benchkit.models.base import Frozen
from benchkit.models.run import TrialId

ProbeOutcome = Literal["held", "missed", "generator", "unusable"]
"""Result of a probe. held: the objective held; missed: it did not; generator: it did not, and the load tool was at
fault, so that this says nothing about the server; unusable: the trial was disturbed, or too short."""

LATENCY_LIMITS = {
    "p50_s": "latency_p50_s",
    "p90_s": "latency_p90_s",
    "p99_s": "latency_p99_s",
    "p999_s": "latency_p999_s",
}
"""Columns of `trials` that the latencies of an objective limit, by their fields."""


class Objective(Frozen):
    """Service level objective: limits of latencies and errors that a rate must keep."""

    p50_s: PositiveFloat | None = Field(default=None, description="limit of the median latency", examples=[0.002])
    p90_s: PositiveFloat | None = Field(default=None, description="limit of the p90 latency", examples=[0.005])
    p99_s: PositiveFloat | None = Field(default=None, description="limit of the p99 latency", examples=[0.010])
    p999_s: PositiveFloat | None = Field(default=None, description="limit of the p99.9 latency", examples=[0.050])
    error_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.001, description="largest share of failed requests and answers other than 2xx"
    )

    @model_validator(mode="after")
    def _limits_a_latency(self) -> Self:
        if not self.latencies:
            raise ValueError(f"an objective limits a latency: one of {', '.join(LATENCY_LIMITS)}")
        return self

    @property
    def latencies(self) -> dict[str, float]:
        """Limits by the columns of `trials` that they are about."""
        limits = {column: getattr(self, name) for name, column in LATENCY_LIMITS.items()}
        return {column: limit for column, limit in limits.items() if limit is not None}


class CapacityGoal(Frozen):
    """Search for the highest rate at which an objective holds."""

    slo: Objective = Field(description="objective that the rate must keep", examples=[{"p99_s": 0.01}])
    precision: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="0.05: the search ends when its interval reaches at most 5 % to either side"
    )
    budget_s: PositiveFloat = Field(
        default=120, description="time of a search, in seconds, after which no further probe begins"
    )


class CapacityProbe(Frozen):
    """One trial of a search."""

    trial_id: TrialId
    rate: float
    outcome: ProbeOutcome
    why: str = Field(description="clause with the figures that decided")


class CapacityEstimate(Frozen):
    """The result of a search, with a 95 % interval."""

    rps: float
    low: float
    high: float | None = Field(
        description="None: no probe failed by the server, so that the capacity is at least `low`"
    )
    reason: str = Field(description="clause that says why the search ended")
    ceiling_rps: float = Field(description="rate at full speed, in a closed loop")
    violations: int = Field(
        default=0, description="probes that missed the objective at a lower rate than another one that held it"
    )
    probes: tuple[CapacityProbe, ...] = ()
