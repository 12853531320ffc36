"""Shares of a profile by category: every sample belongs to exactly one, so that shares add up to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from benchkit.models.profile import CATEGORIES, SCHEDULING, STUDIED, Category, Frame, Profile
from benchkit.profiles.share_rules import Kernel, Rule, rules


@dataclass(frozen=True)
class Shares:
    """The shares of a profile; a profile without samples has none."""

    total: int
    """Sum of all samples, in the unit of the profile's value."""
    categories: Mapping[Category, float]
    """All categories, in their order; empty for a profile without samples."""
    cumulative: Mapping[str, float]
    """Share of samples with a scheduler function in their stack, by function, as study 4 printed them."""

    @property
    def scheduling(self) -> float | None:
        """The headline share: scheduling, and netpoll under findRunnable."""
        return sum(self.categories[each] for each in CATEGORIES if each in SCHEDULING) if self.categories else None


def shares(profile: Profile, *, value: int | None = None, kernel: Kernel = "call") -> Shares:
    """Return the shares of a profile by the value type of that index (the default one)."""
    sums: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    cumulative = dict.fromkeys(STUDIED, 0)
    classifier = _Classifier(profile.frames, rules(kernel))
    studied_names = [
        {name for name, names in STUDIED.items() if names.match(frame.function)} for frame in profile.frames
    ]
    total = 0
    for stack, weight in zip(profile.stacks, profile.weights(value), strict=True):
        if weight:
            total += weight
            sums[classifier.category(stack)] += weight
            for name in set().union(*(studied_names[frame] for frame in stack)):
                cumulative[name] += weight
    return Shares(
        total=total,
        categories={category: part / total for category, part in sums.items()} if total else {},
        cumulative={name: part / total for name, part in cumulative.items()} if total else {},
    )


def categories(profile: Profile, kernel: Kernel = "call") -> Iterator[Category]:
    """Iterate over the category of each stack of a profile."""
    classifier = _Classifier(profile.frames, rules(kernel))
    return map(classifier.category, profile.stacks)


class _Classifier:
    """The rules, matched once against each frame; conditions on callers are bits, one for each pattern."""

    def __init__(self, frames: Sequence[Frame], rules_in_order: Sequence[Rule]) -> None:
        conditions = {
            pattern: 1 << i
            for i, pattern in enumerate(
                dict.fromkeys(
                    p for rule in rules_in_order for p in (rule.under, rule.not_under, rule.called_by) if p is not None
                )
            )
        }

        @cache
        def met_conditions(label: str) -> int:
            return sum(bit for pattern, bit in conditions.items() if pattern.match(label))

        @cache
        def matching_rules(label: str, in_kernel: bool) -> tuple[tuple[int, int, int, Category], ...]:  # noqa: FBT001 - one of two
            return tuple(
                (_bit(rule.under), _bit(rule.not_under), _bit(rule.called_by), rule.category)
                for rule in rules_in_order
                if rule.kernel is in_kernel and rule.function.match(label)
            )

        def _bit(pattern: object) -> int:
            return 0 if pattern is None else conditions[pattern]  # type: ignore[index] # all patterns are keys

        self._met = [met_conditions(frame.label) for frame in frames]
        self._rules = [matching_rules(frame.label, frame.kernel) for frame in frames]

    def category(self, stack: Sequence[int]) -> Category:
        """Return the category of a stack, innermost frame first."""
        callers_met = [0] * len(stack)  # conditions met by the callers of each frame
        for i in range(len(stack) - 2, -1, -1):
            callers_met[i] = callers_met[i + 1] | self._met[stack[i + 1]]
        for i, frame in enumerate(stack):
            for under, not_under, called_by, category in self._rules[frame]:
                if (
                    (not under or under & callers_met[i])
                    and not not_under & callers_met[i]
                    and (not called_by or (i + 1 < len(stack) and called_by & self._met[stack[i + 1]]))
                ):
                    return category
        return "other"
