"""The profile pass: blocks after the measured ones, in which every cell runs twice side by side, profiled and not."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt

from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.levels import Name
from benchkit.models.load import Load
from benchkit.models.run import TrialKind
from benchkit.scenario.trial_order import PlannedTrial

LEAST_S = 2.0
"""What is left of a window for a profile, at least: Go's profiler takes whole seconds, and has to end before the load."""


class ProfilePass(Frozen):
    """What is profiled, for how long and how often.

    The trials of the pass are never measured ones: those that are profiled are of the kind `profile`, their partners in
    the same block of the kind `control`. The ratio of the two is what profiling costs.
    """

    blocks: PositiveInt = 2
    duration_s: PositiveFloat | None = Field(
        default=None, description="measured window of its trials; absent: that of the load"
    )
    settle_s: float = Field(
        default=0, ge=0, description="profiles begin so long after the window, when all connections are there"
    )
    frequency_hz: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=99, description="samples a second of each CPU where perf takes them; Go's own profiler takes 100"
    )
    services: tuple[Name, ...] | None = Field(default=None, description="by name; absent: all of each stack")

    def load(self, load: Load) -> Load:
        """The load of a trial of the pass."""
        return load if self.duration_s is None else load.model_copy(update=self.window)

    @property
    def window(self) -> dict[str, float | None]:
        """The fields of a load that the pass sets."""
        return {} if self.duration_s is None else {"duration_s": self.duration_s, "requests": None}

    def includes(self, service: str) -> bool:
        """Whether a service of that name is profiled."""
        return self.services is None or service in self.services


def profile_slots(
    wanted: ProfilePass, cell_ids: Sequence[str], after_block: int, seed: int
) -> tuple[PlannedTrial, ...]:
    """The trials of the pass, in blocks numbered on from the measured ones.

    Every cell has a pair in each block, both trials of it next to each other, so that they share whatever drifts; which
    of the two comes first and the order of the pairs are drawn from the seed. Controls are not profiled.
    """
    own = [cell_id for cell_id in cell_ids if controlled(cell_id) is None]
    made: list[PlannedTrial] = []
    for number in range(1, wanted.blocks + 1):
        drawn = random.Random(f"{seed}/profile/{number}")  # noqa: S311 - an order of trials, no secret
        pairs = [(cell_id, kind) for cell_id in drawn.sample(own, len(own)) for kind in _pair(drawn)]
        made += [PlannedTrial(after_block + number, place, *pair) for place, pair in enumerate(pairs, start=1)]
    return tuple(made)


def in_pass(kind: TrialKind, cell_id: str) -> bool:
    """Whether a trial is one of the pass: profiled, or the partner of one that is."""
    return kind == "profile" or (kind == "control" and controlled(cell_id) is None)


def pass_of(scenario: Mapping[str, Any]) -> ProfilePass | None:
    """The profile pass of a stored scenario; None where it has none."""
    wanted = scenario.get("profile")
    return None if wanted is None else ProfilePass.model_validate(wanted)


def unknown_services(wanted: ProfilePass, services: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The services that the pass names and no stack has, with their places in its list."""
    known = set(services)
    yield from ((i, name) for i, name in enumerate(wanted.services or ()) if name not in known)


def _pair(drawn: random.Random) -> list[TrialKind]:
    kinds: list[TrialKind] = ["profile", "control"]
    drawn.shuffle(kinds)
    return kinds
