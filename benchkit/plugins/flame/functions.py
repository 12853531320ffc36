"""Functions of a profile as text: those with most time of their own, or with the largest change of it."""

from __future__ import annotations

from dataclasses import dataclass

from benchkit import units
from benchkit.models.profile import ValueType
from benchkit.plugins.flame.tree import CallTree

MAX_ROWS = 25


@dataclass(frozen=True)
class FunctionRow:
    """A function with its shares as text."""

    function: str
    itself: str
    with_calls: str
    change: str


@dataclass
class _Totals:
    """Values of a function over all its nodes; `base` is the profile that it is compared with."""

    itself: int = 0
    itself_base: int = 0
    with_calls: int = 0


def function_table(tree: CallTree) -> list[FunctionRow]:
    """Return the functions with most self time, or with its largest change if two profiles are compared."""
    totals: dict[str, _Totals] = {}
    path: list[str] = []
    for depth, node in tree.nodes():
        del path[depth:]
        label = node.frame.label
        total = totals.setdefault(label, _Totals())
        total.itself += node.value - sum(call.value for call in node.calls.values())
        total.itself_base += node.base - sum(call.base for call in node.calls.values())
        if label not in path:  # a recursive function is counted at its outermost call
            total.with_calls += node.value
        path.append(label)
    totals.pop(tree.root.frame.label, None)

    def share(value: int, whole: int) -> float:
        return value / whole if whole else 0.0

    def change(label: str) -> float:
        return share(totals[label].itself, tree.root.value) - share(totals[label].itself_base, tree.root.base)

    def order(label: str) -> tuple[float, str]:
        return (-abs(change(label)) if tree.compared else -totals[label].itself), label

    return [
        FunctionRow(
            function=label,
            itself=units.share(share(totals[label].itself, tree.root.value)),
            with_calls=units.share(share(totals[label].with_calls, tree.root.value)),
            change=f"{change(label) * 100:+.1f} points",
        )
        for label in sorted(totals, key=order)[:MAX_ROWS]
    ]


def amount(value: int, value_type: ValueType) -> str:
    """Return a value as text: a time, a size, or a number of what is counted."""
    time_s = value_type.seconds(value)
    if time_s is not None:
        return units.seconds(time_s)
    return units.size(value) if value_type.unit == "bytes" else units.count(value)
