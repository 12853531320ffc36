"""Several profiles of the same program merged into one; equal frames and stacks are stored once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile

T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """Distinct values, in the order in which they were added."""

    def __init__(self) -> None:
        self._indexes: dict[T, int] = {}

    def index(self, value: T) -> int:
        """Return the index of a value; a new value is appended."""
        return self._indexes.setdefault(value, len(self._indexes))

    @property
    def values(self) -> tuple[T, ...]:
        """All values, by index."""
        return tuple(self._indexes)


def merge_profiles(profiles: Sequence[Profile]) -> Profile:
    """Merge the samples of profiles; durations add up. Raises ParseError for profiles with different value types."""
    first = profiles[0]
    if len(profiles) == 1:
        return first
    if any((each.profiler, each.value_types) != (first.profiler, first.value_types) for each in profiles):
        counted = sorted({f"{each.profiler}: {', '.join(v.kind for v in each.value_types)}" for each in profiles})
        raise ParseError("profiles with different value types cannot be merged", why="; ".join(counted))
    frames: Interned[Frame] = Interned()
    stacks: Interned[tuple[int, ...]] = Interned()
    samples: list[int] = []
    for profile in profiles:
        place_of = [frames.index(frame) for frame in profile.frames]
        stack_of = [stacks.index(tuple(place_of[frame] for frame in stack)) for stack in profile.stacks]
        samples += [stack_of[stack] for stack in profile.samples]
    durations = [each.duration_s for each in profiles if each.duration_s is not None]
    started = [each.started_at for each in profiles if each.started_at is not None]
    return Profile(
        profiler=first.profiler,
        value_types=first.value_types,
        default_value=first.default_value,
        frames=frames.values,
        stacks=stacks.values,
        samples=tuple(samples),
        values=tuple(
            tuple(value for each in profiles for value in each.values[i]) for i in range(len(first.value_types))
        ),
        started_at=min(started, default=None),
        duration_s=sum(durations) if len(durations) == len(profiles) else None,
    )
