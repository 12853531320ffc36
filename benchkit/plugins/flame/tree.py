"""Call tree of a profile, or of two that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchkit.models.profile import Frame, Profile, ValueType

MAX_NODES = 40_000
"""Calls that a page shows at once without delay; smaller ones are omitted."""


@dataclass(slots=True)
class Node:
    """A function on one path of calls from the root."""

    frame: Frame
    value: int = 0
    """Sum over all samples at it or below."""
    base: int = 0
    """The same sum in the profile that it is compared with."""
    calls: dict[str, Node] = field(default_factory=dict)
    """Its calls, by label: a function is one node, inlined or not."""


@dataclass(frozen=True)
class CallTree:
    """Root of the tree, which stands for all samples, and the type of its values."""

    root: Node
    value_type: ValueType
    compared: bool
    """True if the nodes have a base."""

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """Yield every node and its depth, callers first, the calls of each in the order of their names."""
        pending = [(0, self.root)]
        while pending:
            depth, node = pending.pop()
            yield depth, node
            pending += [(depth + 1, node.calls[label]) for label in sorted(node.calls, reverse=True)]

    def pruned(self, most: int = MAX_NODES) -> CallTree:
        """Return the tree without its smallest nodes, so that at most `most` of them and the root remain.

        A node goes with all nodes below it, which are smaller; its caller keeps the time as its own.
        """
        sizes = sorted((self.size(node) for _, node in self.nodes()), reverse=True)
        if len(sizes) <= most + 1:
            return self
        return CallTree(self._above(self.root, sizes[most]), self.value_type, self.compared)

    def size(self, node: Node) -> float:
        """Return the share of a node in its profile; in two profiles, the larger."""
        return max(part / whole if whole else 0.0 for part, whole in self._parts(node))

    def _parts(self, node: Node) -> Sequence[tuple[int, int]]:
        return (node.value, self.root.value), (node.base, self.root.base)

    def _above(self, node: Node, least: float) -> Node:
        copy = Node(node.frame, node.value, node.base)
        pending = [(node, copy)]
        while pending:
            old, new = pending.pop()
            for label, call in old.calls.items():
                if self.size(call) > least:
                    new.calls[label] = Node(call.frame, call.value, call.base)
                    pending.append((call, new.calls[label]))
        return copy


def call_tree(profile: Profile, *, value: int | None = None, base: Profile | None = None) -> CallTree:
    """Return the tree of a profile by the value of that index (the default one), with the values of `base` added.

    Of `base`, the value of the same kind is used, or its default one if it has none.
    """
    root = Node(Frame("all"))
    index = profile.default_value if value is None else value
    for stack, weight in _weighted_stacks(profile, index):
        for node in _path(root, profile.frames, stack):
            node.value += weight
    if base is not None:
        kind = profile.value_types[index].kind
        same = next((i for i, each in enumerate(base.value_types) if each.kind == kind), base.default_value)
        for stack, weight in _weighted_stacks(base, same):
            for node in _path(root, base.frames, stack):
                node.base += weight
    return CallTree(root, profile.value_types[index], base is not None)


def _weighted_stacks(profile: Profile, value: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Return the stacks with a value above 0: a drawn node has a width."""
    return ((stack, weight) for stack, weight in zip(profile.stacks, profile.weights(value), strict=True) if weight > 0)


def _path(root: Node, frames: Sequence[Frame], stack: Sequence[int]) -> Iterator[Node]:
    """Yield the nodes from the root to the innermost frame of a stack, and add those that are missing."""
    node = root
    yield node
    for place in reversed(stack):
        frame = frames[place]
        label = frame.label
        below = node.calls.get(label)
        if below is None:
            below = node.calls[label] = Node(frame)
        node = below
        yield node
