"""A flame graph as one HTML file that fetches nothing: to be zoomed, searched and walked through with the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from benchkit import units
from benchkit.models.profile import PER_SECOND, Profile, ValueType
from benchkit.report import html
from benchkit.report.clean_text import clean
from benchkit.report.flame.palette import EVERYTHING, style, tone
from benchkit.report.flame.tree import CallTree, call_tree
from benchkit.version import __version__

ROWS = 25
"""Functions in the table below the graph."""


@dataclass(frozen=True)
class TableRow:
    """A function in the table below the graph, in words."""

    function: str
    itself: str
    with_calls: str
    change: str


def flame_page(
    profile: Profile, name: str, *, value: int | None = None, base: tuple[Profile, str] | None = None
) -> str:
    """The page of a profile by the value of that index (the default one); with `base`, of what changed since then."""
    tree = call_tree(profile, value=value, base=base[0] if base else None)
    shown = tree.pruned()
    sheet, script = html.theme() + style() + html.asset("flame.css"), html.asset("flame.js")
    return (
        html.environment()
        .get_template("flame.html.j2")
        .render(
            title=clean(name),
            since=clean(base[1]) if base else None,
            facts=list(_facts(profile, tree)),
            data=_data(shown),
            rows=functions(tree),
            style=Markup(sheet),  # noqa: S704 - ours, no data is in it
            script=Markup(script),  # noqa: S704 - ours, no data is in it
            policy=html.policy(sheet, script),
            version=__version__,
        )
    )


def amount(value: int, value_type: ValueType) -> str:
    """A value in words: a time, a size, or a number of what is counted."""
    time_s = value_type.seconds(value)
    if time_s is not None:
        return units.seconds(time_s)
    return units.size(value) if value_type.unit == "bytes" else units.count(value)


def _facts(profile: Profile, tree: CallTree) -> Iterator[tuple[str, str]]:
    kind = tree.value_type
    yield "Profiler", profile.profiler
    yield "Value", clean(kind.kind)
    yield "In all", amount(tree.root.value, kind)
    if tree.compared:
        yield "In all before", amount(tree.root.base, kind)
    if profile.duration_s is not None:
        yield "Profiled for", units.duration(profile.duration_s)
    if profile.started_at is not None:
        yield "Started", profile.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _data(tree: CallTree) -> dict[str, Any]:
    """What the script draws: frames, and nodes as a flat list of frame, depth, value (and base), callers first."""
    places: dict[tuple[str, str, str], int] = {}
    nodes: list[int] = []
    for depth, node in tree.nodes():
        frame = node.frame
        where = frame.file or frame.module or ""
        hue = EVERYTHING if depth == 0 else tone(frame)
        place = places.setdefault((clean(frame.label), clean(where), hue.name), len(places))
        nodes += [place, depth, node.value, node.base] if tree.compared else [place, depth, node.value]
    return {
        "compared": tree.compared,
        "per_second": PER_SECOND.get(tree.value_type.unit),
        "unit": clean(tree.value_type.unit),
        "frames": [list(frame) for frame in places],
        "nodes": nodes,
    }


def functions(tree: CallTree) -> list[TableRow]:
    """The functions with most of their own time, or with the largest change of it."""
    itself: dict[str, list[int]] = {}
    with_calls: dict[str, list[int]] = {}
    on_the_way: list[str] = []
    for depth, node in tree.nodes():
        del on_the_way[depth:]
        label = node.frame.label
        own = itself.setdefault(label, [0, 0])
        own[0] += node.value - sum(call.value for call in node.calls.values())
        own[1] += node.base - sum(call.base for call in node.calls.values())
        if label not in on_the_way:  # a function that recurs is counted where it stands outermost
            below = with_calls.setdefault(label, [0, 0])
            below[0] += node.value
            below[1] += node.base
        on_the_way.append(label)
    itself.pop(tree.root.frame.label, None)

    def share(value: int, whole: int) -> float:
        return value / whole if whole else 0.0

    def change(label: str) -> float:
        return share(itself[label][0], tree.root.value) - share(itself[label][1], tree.root.base)

    def order(label: str) -> tuple[float, str]:
        return (-abs(change(label)) if tree.compared else -itself[label][0]), label

    return [
        TableRow(
            function=label,
            itself=units.share(share(itself[label][0], tree.root.value)),
            with_calls=units.share(share(with_calls[label][0], tree.root.value)),
            change=_points(change(label)),
        )
        for label in sorted(itself, key=order)[:ROWS]
    ]


def _points(change: float) -> str:
    """A difference of shares: `+1.2 points`."""
    return f"{change * 100:+.1f} points"
