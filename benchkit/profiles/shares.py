"""The time of a profile by category: every sample in exactly one, so that shares add up to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from benchkit.models.categories import CATEGORIES, SCHEDULING, STUDIED, Category
from benchkit.models.profile import Frame, Profile
from benchkit.profiles.share_rules import Kernel, Rule, rules


@dataclass(frozen=True)
class Shares:
    """The shares of a profile; a profile without samples has none."""

    total: int
    """What they are of, in the unit of the profile's value."""
    categories: Mapping[Category, float]
    """All categories, in their order; empty where there are no samples."""
    cumulative: Mapping[str, float]
    """The share of samples in whose stack a function of the scheduler stands, as study 4 printed them."""

    @property
    def scheduling(self) -> float | None:
        """The headline: scheduling, and netpoll under findRunnable."""
        return sum(self.categories[each] for each in CATEGORIES if each in SCHEDULING) if self.categories else None


def shares(profile: Profile, *, value: int | None = None, kernel: Kernel = "call") -> Shares:
    """The shares of a profile by the value of that index (the default one)."""
    sums: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    studied = dict.fromkeys(STUDIED, 0)
    judge = _Judge(profile.frames, rules(kernel))
    marks = [{name for name, names in STUDIED.items() if names.match(frame.function)} for frame in profile.frames]
    total = 0
    for stack, weight in zip(profile.stacks, profile.weights(value), strict=True):
        if weight:
            total += weight
            sums[judge.category(stack)] += weight
            for name in set().union(*(marks[frame] for frame in stack)):
                studied[name] += weight
    return Shares(
        total=total,
        categories={category: part / total for category, part in sums.items()} if total else {},
        cumulative={name: part / total for name, part in studied.items()} if total else {},
    )


def categories(profile: Profile, kernel: Kernel = "call") -> Iterator[Category]:
    """The category of each stack of a profile."""
    judge = _Judge(profile.frames, rules(kernel))
    return map(judge.category, profile.stacks)


class _Judge:
    """The rules, asked of each frame once; conditions on callers are bits, one for each pattern."""

    def __init__(self, frames: Sequence[Frame], asked: Sequence[Rule]) -> None:
        conditions = {
            pattern: 1 << i
            for i, pattern in enumerate(
                dict.fromkeys(
                    p for rule in asked for p in (rule.under, rule.not_under, rule.called_by) if p is not None
                )
            )
        }

        @cache
        def met(label: str) -> int:
            return sum(bit for pattern, bit in conditions.items() if pattern.match(label))

        @cache
        def named(label: str, in_kernel: bool) -> tuple[tuple[int, int, int, Category], ...]:  # noqa: FBT001 - one of two
            return tuple(
                (_bit(rule.under), _bit(rule.not_under), _bit(rule.called_by), rule.category)
                for rule in asked
                if rule.kernel is in_kernel and rule.function.match(label)
            )

        def _bit(pattern: object) -> int:
            return 0 if pattern is None else conditions[pattern]  # type: ignore[index] # it is one of them

        self._met = [met(frame.label) for frame in frames]
        self._named = [named(frame.label, frame.kernel) for frame in frames]

    def category(self, stack: Sequence[int]) -> Category:
        """The category of a stack, innermost frame first."""
        outside = [0] * len(stack)  # the conditions that the callers of each frame meet
        for i in range(len(stack) - 2, -1, -1):
            outside[i] = outside[i + 1] | self._met[stack[i + 1]]
        for i, frame in enumerate(stack):
            for under, not_under, called_by, category in self._named[frame]:
                if (
                    (not under or under & outside[i])
                    and not not_under & outside[i]
                    and (not called_by or (i + 1 < len(stack) and called_by & self._met[stack[i + 1]]))
                ):
                    return category
        return "other"
