"""Call tree of a profile, or of two that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchkit.models.profile import Frame, Profile, ValueType


@dataclass(slots=True)
class Call:
    """A function on one path of calls from the root."""

    frame: Frame
    value: int = 0
    """Sum over the samples of this call and of those below it."""
    base: int = 0
    """The same sum in the other profile of a comparison."""
    calls: dict[str, Call] = field(default_factory=dict)
    """Its calls, by label: a function is one call, inlined or not."""


@dataclass(frozen=True)
class CallTree:
    """Root of the tree, which stands for all samples, and the type of its values."""

    root: Call
    value_type: ValueType

    def calls(self) -> Iterator[tuple[int, Call]]:
        """Yield every call and its depth, callers first, the calls of each in the order of their names."""
        pending = [(0, self.root)]
        while pending:
            depth, call = pending.pop()
            yield depth, call
            pending += [(depth + 1, call.calls[label]) for label in sorted(call.calls, reverse=True)]

    def share(self, value: int) -> float:
        """Return a value as a share of the whole profile."""
        return value / self.root.value if self.root.value else 0.0

    def base_share(self, value: int) -> float:
        """Return a value of the other profile as a share of that whole profile."""
        return value / self.root.base if self.root.base else 0.0

    def change(self, call: Call) -> float:
        """Return the share of a call less its share in the other profile."""
        return self.share(call.value) - self.base_share(call.base)


def call_tree(profile: Profile, *, value: int | None = None, base: Profile | None = None) -> CallTree:
    """Return the tree of a profile by the value of that index (the default one), with the values of `base` added.

    Of `base`, the value of the same kind is used, or its default one if it has none.
    """
    root = Call(Frame("all"))
    index = profile.default_value if value is None else value
    for stack, weight in weighted_stacks(profile, index):
        for call in _path(root, profile.frames, stack):
            call.value += weight
    if base is not None:
        kind = profile.value_types[index].kind
        same = next((i for i, each in enumerate(base.value_types) if each.kind == kind), base.default_value)
        for stack, weight in weighted_stacks(base, same):
            for call in _path(root, base.frames, stack):
                call.base += weight
    return CallTree(root, profile.value_types[index])


def self_shares(tree: CallTree) -> dict[str, tuple[float, float]]:
    """Return the share of each function's own time, and its change from the other profile, by the function's label."""
    totals: dict[str, tuple[int, int]] = {}
    for depth, call in tree.calls():
        if depth:
            value, base = totals.get(call.frame.label, (0, 0))
            totals[call.frame.label] = (
                value + call.value - sum(each.value for each in call.calls.values()),
                base + call.base - sum(each.base for each in call.calls.values()),
            )
    return {
        label: (tree.share(value), tree.share(value) - tree.base_share(base)) for label, (value, base) in totals.items()
    }


def weighted_stacks(profile: Profile, value: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Return the stacks with a value above 0: a drawn call has a width."""
    return ((stack, weight) for stack, weight in zip(profile.stacks, profile.weights(value), strict=True) if weight > 0)


def _path(root: Call, frames: Sequence[Frame], stack: Sequence[int]) -> Iterator[Call]:
    """Yield the calls from the root to the innermost frame of a stack, and add those that are missing."""
    call = root
    yield call
    for place in reversed(stack):
        frame = frames[place]
        label = frame.label
        below = call.calls.get(label)
        if below is None:
            below = call.calls[label] = Call(frame)
        call = below
        yield call
