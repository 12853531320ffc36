"""The capacity of a server under an objective: what is asked for, and what a search found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from benchkit.models.base import Frozen
from benchkit.models.metrics import metric_named
from benchkit.models.run import TrialId
from benchkit.units import seconds

ProbeOutcome = Literal["held", "missed", "generator", "unusable"]
"""Result of a probe. `held`: the objective held. `missed`: it did not. `generator`: it did not, and the load tool was
at fault, so that this says nothing about the server. `unusable`: the trial was disturbed, or too short.
"""

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
        default=0.001, description="largest share of failed requests and non-2xx"
    )

    @model_validator(mode="after")
    def _limits_a_latency(self) -> Self:
        if not self.latencies:
            raise ValueError(f"an objective limits a latency: one of {', '.join(LATENCY_LIMITS)}")
        return self

    @property
    def text(self) -> str:
        """The limits of latencies as a clause: `p99 latency within 10.0 ms`."""
        limits = (f"{metric_named(name).title} within {seconds(limit)}" for name, limit in self.latencies.items())
        return " and ".join(limits)

    @property
    def latencies(self) -> dict[str, float]:
        """Limits by the columns of `trials` that they are about."""
        limits = {column: getattr(self, name) for name, column in LATENCY_LIMITS.items()}
        return {column: limit for column, limit in limits.items() if limit is not None}


class CapacityGoal(Frozen):
    """Search for the highest rate at which an objective holds."""

    slo: Objective = Field(description="objective that the rate must keep", examples=[{"p99_s": 0.01}])
    precision: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="0.05: the interval reaches at most 5 % either way"
    )
    budget_s: PositiveFloat = Field(default=120, description="seconds after which no further probe begins")


class CapacityProbe(Frozen):
    """One trial of a search."""

    trial_id: TrialId
    rate: float
    outcome: ProbeOutcome
    why: str = Field(description="clause with the figures that decided")


class CapacityEstimate(Frozen):
    """The result of a search, with a 95 % interval."""

    rps: float = Field(description="median of the likely capacities; without `high`, the highest rate that held")
    low: float | None = Field(description="None: no probe held the objective, and none failed by the server")
    high: float | None = Field(description="None: no probe failed by the server: the capacity is at least `low`")
    reason: str = Field(description="clause that says why the search ended")
    ceiling_rps: float = Field(description="rate that the server carries by its load curve")
    violations: int = Field(default=0, description="probes that missed the objective below a rate that held it")
    probes: tuple[CapacityProbe, ...] = ()

    @property
    def precision(self) -> float:
        """Largest relative distance from the capacity to an end of its interval; infinite without one."""
        if self.low is None or self.high is None:
            return math.inf
        return max(self.high / self.rps, self.rps / self.low) - 1

    @property
    def highest_held(self) -> float | None:
        """Highest rate of a probe that held the objective; None: none did."""
        return max((probe.rate for probe in self.probes if probe.outcome == "held"), default=None)


def goal_of(scenario: Mapping[str, Any]) -> CapacityGoal | None:
    """Return the goal of a stored scenario's searches; None: it has none, or not the same for all cells."""
    goal = (scenario.get("load") or {}).get("capacity")
    slo = goal.get("slo") if isinstance(goal, Mapping) else None
    is_same = isinstance(slo, Mapping) and not any(isinstance(value, str) for value in slo.values())
    return CapacityGoal.model_validate(goal) if is_same else None


def searches_capacity(scenario: Mapping[str, Any]) -> bool:
    """Return True if each trial of a stored scenario searches for the capacity of its cell."""
    load = scenario.get("load") or {}
    at_share = load.get("share_of_capacity") is not None or isinstance(load.get("rate"), Mapping)
    return load.get("capacity") is not None and not at_share
