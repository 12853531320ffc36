"""The tree of calls of a profile, or of two whose difference is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchkit.models.profile import Frame, Profile, ValueType

MOST_NODES = 40_000
"""As many calls as a page shows at once without delay; the smallest beyond it are left out."""


@dataclass(slots=True)
class Node:
    """A function as it was called on one way from the root."""

    frame: Frame
    value: int = 0
    """The sum over all samples at it or below."""
    base: int = 0
    """The same of the profile that it is compared with."""
    calls: dict[str, Node] = field(default_factory=dict)
    """What it calls, by label: a function is one, whether it was inlined or not."""


@dataclass(frozen=True)
class CallTree:
    """The root, which stands for everything, and what the values are."""

    root: Node
    value_type: ValueType
    compared: bool
    """Whether the nodes have a base."""

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """Every node and its depth, callers first, functions called by one in the order of their names."""
        pending = [(0, self.root)]
        while pending:
            depth, node = pending.pop()
            yield depth, node
            pending += [(depth + 1, node.calls[label]) for label in sorted(node.calls, reverse=True)]

    def pruned(self, most: int = MOST_NODES) -> CallTree:
        """The tree less its smallest nodes, so that at most so many (and the root) are left.

        A node goes with all below it, which is smaller; its caller keeps the time as if it had spent it itself.
        """
        sizes = sorted((self.size(node) for _, node in self.nodes()), reverse=True)
        if len(sizes) <= most + 1:
            return self
        return CallTree(self._above(self.root, sizes[most]), self.value_type, self.compared)

    def size(self, node: Node) -> float:
        """The share of a node in its profile; of two, the larger."""
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
    """The tree of a profile by the value of that index (the default one), with that of `base` laid over it.

    Of `base` the value of the same kind is taken, or its default one where it has no such.
    """
    root = Node(Frame("all"))
    index = profile.default_value if value is None else value
    for stack, weight in _weighed(profile, index):
        for node in _path(root, profile.frames, stack):
            node.value += weight
    if base is not None:
        kind = profile.value_types[index].kind
        same = next((i for i, each in enumerate(base.value_types) if each.kind == kind), base.default_value)
        for stack, weight in _weighed(base, same):
            for node in _path(root, base.frames, stack):
                node.base += weight
    return CallTree(root, profile.value_types[index], base is not None)


def _weighed(profile: Profile, value: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """The stacks that a value above zero belongs to: what is drawn has a width."""
    return ((stack, weight) for stack, weight in zip(profile.stacks, profile.weights(value), strict=True) if weight > 0)


def _path(root: Node, frames: Sequence[Frame], stack: Sequence[int]) -> Iterator[Node]:
    """The nodes from the root to the innermost frame of a stack, made where they are missing."""
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
