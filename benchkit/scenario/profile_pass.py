"""The profile pass: blocks after the measured ones, in which each cell runs twice in a row, profiled and unprofiled."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PositiveInt

from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.levels import Name
from benchkit.models.load import MAX_TIME_S, Load
from benchkit.models.run import TrialKind
from benchkit.scenario.trial_order import PlannedTrial

MIN_PROFILE_S = 2.0
"""Shortest time for a profile within a window: Go's profiler takes whole seconds, and has to end before the load
does."""


class ProfilePass(Frozen):
    """Options of the profile pass: services, duration, repetitions.

    Trials of the pass are never measured ones: profiled trials are of the kind `profile`, their partners in the same
    block of the kind `control`. The ratio of the two is the cost of profiling.
    """

    blocks: PositiveInt = Field(default=2, description="repetitions of the profiled trials")
    duration_s: Annotated[float, Field(gt=0, le=MAX_TIME_S)] | None = Field(
        default=None,
        description="measured window of its trials; absent: that of the load, but long enough for the profiler",
        examples=[10],
    )
    settle_s: float = Field(
        default=0,
        ge=0,
        le=MAX_TIME_S,
        description="time from the start of the window to the start of profiles, so that all connections are established",
    )
    frequency_hz: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=99, description="samples per second and CPU where perf takes them; Go's own profiler takes 100"
    )
    services: tuple[Name, ...] | None = Field(
        default=None, description="names of services; absent: all of each stack", examples=[["app"]]
    )

    def load(self, load: Load) -> Load:
        """Return the load of a trial of the pass."""
        return load.model_copy(update=self.window(load))

    def window(self, load: Load) -> dict[str, float | None]:
        """Return the fields of the load that the pass sets: none where the load's own window is long enough."""
        if self.duration_s is not None:
            return {"duration_s": self.duration_s, "request_count": None}
        if self.lengthens(load):
            return {"duration_s": math.ceil(self.needed_s), "request_count": None}  # some tools take whole seconds only
        return {}

    @property
    def needed_s(self) -> float:
        """Shortest window in which a profile can be taken."""
        return self.settle_s + MIN_PROFILE_S

    def lengthens(self, load: Load) -> bool:
        """Return whether the load's own window is no time, or too short, so that the pass uses a longer one."""
        return self.duration_s is None and (load.duration_s is None or load.duration_s < self.needed_s)

    def includes(self, service: str) -> bool:
        """Return whether the service of that name is profiled."""
        return self.services is None or service in self.services


def profile_trials(
    profile: ProfilePass, cell_ids: Sequence[str], after_block: int, seed: int
) -> tuple[PlannedTrial, ...]:
    """Return the trials of the pass in order; its blocks are numbered on from `after_block`.

    Every cell has a pair of adjacent trials in each block, so that both are affected by the same drift; which of the
    two comes first, and the order of the pairs, are drawn from the seed. Control cells are not profiled.
    """
    profiled = [cell_id for cell_id in cell_ids if controlled(cell_id) is None]
    trials: list[PlannedTrial] = []
    for block in range(1, profile.blocks + 1):
        rng = random.Random(f"{seed}/profile/{block}")  # noqa: S311 - an order of trials, no secret
        pairs = [(cell_id, kind) for cell_id in rng.sample(profiled, len(profiled)) for kind in _pair(rng)]
        trials += [PlannedTrial(after_block + block, place, *pair) for place, pair in enumerate(pairs, start=1)]
    return tuple(trials)


def is_profile_pass(kind: TrialKind, cell_id: str) -> bool:
    """Return whether a trial belongs to the pass: a profiled trial, or the partner of one."""
    return kind == "profile" or (kind == "control" and controlled(cell_id) is None)


def _pair(rng: random.Random) -> list[TrialKind]:
    kinds: list[TrialKind] = ["profile", "control"]
    rng.shuffle(kinds)
    return kinds
