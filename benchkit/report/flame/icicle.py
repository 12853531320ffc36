"""A flame graph as a figure: every call as wide as its share, below its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.report.clean_text import clean
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.flame.palette import EVERYTHING
from benchkit.report.flame.tree import CallTree, Node
from benchkit.report.style import drawable, hover, width_in
from benchkit.report.theme import INK, SURFACE, Tone

LEAST = 0.002
"""The share of the whole from which a call is drawn: narrower ones are a point wide on paper."""
MOST_CALLS = 1500
DEEPEST = 64
"""Calls deeper than this are not drawn: recursion may have thousands."""

_ROW_IN, _AXIS_IN, _KEY_IN = 0.155, 0.45, 0.26
_SIDE_IN = 0.22
_ROOM_IN = WIDTH_IN - 2 * _SIDE_IN
_SIZE, _INSET_IN = 6.5, 0.025
_FEWEST = 4
"""Characters that a label has at least; less than that tells nothing."""


@dataclass(frozen=True)
class Box:
    """A call as it is drawn: depth from 0 at the root, left edge and width as shares of the whole."""

    depth: int
    left: float
    width: float
    node: Node


def boxes(tree: CallTree) -> list[Box]:
    """The calls that are drawn: of at least `LEAST` of the whole, not deeper than `DEEPEST`, the widest `MOST_CALLS`."""
    whole = tree.root.value
    found: list[Box] = []
    pending = [Box(0, 0.0, 1.0, tree.root)] if whole else []
    while pending:
        box = pending.pop()
        found.append(box)
        left = box.left
        for label in sorted(box.node.calls):
            call = box.node.calls[label]
            width = call.value / whole
            if width >= LEAST and box.depth + 1 < DEEPEST:
                pending.append(Box(box.depth + 1, left, width, call))
            left += width
    if len(found) > MOST_CALLS:  # none is wider than its caller, so that no call loses its own
        least = sorted((box.width for box in found), reverse=True)[MOST_CALLS]
        found = [box for box in found if box.width > least]
    return sorted(found, key=lambda box: (box.depth, box.left))


def left_out(tree: CallTree) -> str:
    """What is not drawn of a tree, in a sentence."""
    whole = tree.root.value
    wide = [depth for depth, node in tree.nodes() if node.value >= LEAST * whole]
    deep = f", nor what lies deeper than {DEEPEST} calls" if max(wide, default=0) >= DEEPEST else ""
    many = (
        f"; of the others the widest {MOST_CALLS:,} are" if sum(depth < DEEPEST for depth in wide) > MOST_CALLS else ""
    )
    return f"Calls below {LEAST:.1%} of the whole are not drawn{deep}{many}."


def draw_icicle(
    tree: CallTree,
    *,
    title: str,
    subtitle: Sequence[str],
    foot: str,
    tone: Callable[[Node], Tone],
    said: Callable[[Node], str],
    keys: Mapping[str, Tone],
) -> Figure:
    """The figure.

    `tone` and `said` give the colour of a call and what is shown when it is pointed at; `keys` say what colours mean.
    """
    found = boxes(tree)
    rows = max((box.depth for box in found), default=0) + 1
    frame = framed(height_in=_KEY_IN + _ROW_IN * rows + _AXIS_IN, title=title, subtitle=subtitle, foot=foot)
    axes = frame.axes(_SIDE_IN, _KEY_IN, _ROOM_IN, _ROW_IN * rows)
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    by_tone: dict[Tone, list[Box]] = {}
    for box in found:
        by_tone.setdefault(EVERYTHING if box.depth == 0 else tone(box.node), []).append(box)
    for each, alike in by_tone.items():
        _draw_boxes(axes, alike, each, said)
    for box in found:
        _label(axes, box)
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.xaxis.set_major_locator(MultipleLocator(0.1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_xlabel("share of the CPU samples")
    if keys:
        frame.figure.legend(
            [Patch(facecolor=each.light) for each in keys.values()],
            list(keys),
            loc="upper left",
            bbox_to_anchor=(EDGE_IN / WIDTH_IN, 1 - frame.top_in / frame.figure.get_figheight()),
            ncols=len(keys),
            borderpad=0,
            borderaxespad=0,
            handlelength=1.2,
            columnspacing=1.0,
            fontsize=7.5,
        )
    return frame.figure


def _draw_boxes(axes: Axes, found: Sequence[Box], tone: Tone, said: Callable[[Node], str]) -> None:
    """The calls of a colour, as one collection."""
    drawn = PolyCollection(
        [
            [(left, box.depth), (left, box.depth + 1), (right, box.depth + 1), (right, box.depth)]
            for box in found
            for left, right in [(box.left, box.left + box.width)]
        ],
        facecolors=tone.light,
        edgecolors=SURFACE.light,
        linewidths=0.4,
        clip_on=False,
    )
    hover(drawn, *(said(box.node) for box in found), most=len(found))
    axes.add_collection(drawn, autolim=False)


def _label(axes: Axes, box: Box) -> None:
    """The name of a call, or as much of it as fits; nothing where too little does."""
    room_in = box.width * _ROOM_IN - 2 * _INSET_IN
    text = _fitting(drawable(short(clean(box.node.frame.label))), room_in)
    if text:
        axes.text(
            box.left + _INSET_IN / _ROOM_IN,
            box.depth + 0.52,
            text,
            size=_SIZE,
            color=INK.light,
            va="center_baseline",
            ha="left",
        )


def short(label: str) -> str:
    """A function of Go without the folders of its package, as Go programs call it: `http.(*conn).serve`."""
    path, slash, _ = label.partition("(")[0].rpartition("/")
    return label if {":", " "} & set(path) else label[len(path) + len(slash) :]


def _fitting(text: str, room_in: float) -> str:
    """As much of a text as there is room for; nothing where that is too little to tell anything."""
    widths = [width_in(char, _SIZE) for char in text]
    if sum(widths) <= room_in:
        return text
    room_in -= width_in("…", _SIZE)
    fits = 0
    for width in widths:
        room_in -= width
        if room_in < 0:
            break
        fits += 1
    return f"{text[:fits]}…" if fits >= _FEWEST else ""


def shares(node: Node, whole: int) -> str:
    """The share of a call, and of its own time in it: `12.3 %, itself 1.2 %`."""
    itself = node.value - sum(call.value for call in node.calls.values())
    return f"{units.share(node.value / whole)}, itself {units.share(itself / whole)}"
