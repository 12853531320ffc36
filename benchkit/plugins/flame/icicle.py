"""Flame graph as a figure: every call as wide as its share, below its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.plugins.flame.tree import CallTree, Node
from benchkit.report.layout import WIDTH_IN, new_figure, shorten
from benchkit.report.palette import EVERYTHING
from benchkit.report.style import drawable, hover
from benchkit.report.theme import INK, SURFACE, Tone
from benchkit.safe_text import clean

MIN_SHARE = 0.002
"""Share of the whole from which a call is drawn: narrower ones are a point wide on paper."""
MAX_CALLS = 1500
MAX_DEPTH = 64
"""Depth of the calls that are drawn: recursion may have thousands."""

_ROW_IN, _AXIS_IN = 0.155, 0.5
_SIZE, _INSET_IN = 6.5, 0.025
_MIN_CHARACTERS = 4
"""Characters that a label has at least; a shorter one says nothing."""


@dataclass(frozen=True)
class Box:
    """Place of a call: depth from 0 at the root, left edge and width as shares of the whole."""

    depth: int
    left: float
    width: float
    node: Node


def boxes(tree: CallTree) -> list[Box]:
    """Return the calls that are drawn: of at least `MIN_SHARE`, up to `MAX_DEPTH` deep, the widest `MAX_CALLS`."""
    whole = tree.root.value
    drawn: list[Box] = []
    pending = [Box(0, 0.0, 1.0, tree.root)] if whole else []
    while pending:
        box = pending.pop()
        drawn.append(box)
        left = box.left
        for label in sorted(box.node.calls):
            call = box.node.calls[label]
            width = call.value / whole
            if width >= MIN_SHARE and box.depth + 1 < MAX_DEPTH:
                pending.append(Box(box.depth + 1, left, width, call))
            left += width
    if len(drawn) > MAX_CALLS:  # no call is wider than its caller, so that none loses its own
        least = sorted((box.width for box in drawn), reverse=True)[MAX_CALLS]
        drawn = [box for box in drawn if box.width > least]
    return sorted(drawn, key=lambda box: (box.depth, box.left))


def omission(tree: CallTree) -> str:
    """Return the sentence on the calls of a tree that are not drawn."""
    whole = tree.root.value
    wide = [depth for depth, node in tree.nodes() if node.value >= MIN_SHARE * whole]
    deep = f", nor calls deeper than {MAX_DEPTH}" if max(wide, default=0) >= MAX_DEPTH else ""
    many = (
        f"; of the others the widest {MAX_CALLS:,} are" if sum(depth < MAX_DEPTH for depth in wide) > MAX_CALLS else ""
    )
    return f"Calls below {MIN_SHARE:.1%} of the whole are not drawn{deep}{many}."


def draw_icicle(
    tree: CallTree,
    *,
    title: str,
    subtitle: Sequence[str],
    source: str,
    tone: Callable[[Node], Tone],
    text: Callable[[Node], str],
    legend: Mapping[str, Tone],
) -> Figure:
    """Draw the tree, its root at the top; `tone` and `text` give the colour and the hover text of a call."""
    drawn = boxes(tree)
    rows = max((box.depth for box in drawn), default=0) + 1
    figure = new_figure(
        _ROW_IN * rows + _AXIS_IN,
        title=title,
        subtitle=subtitle,
        source=source,
        legend=[(Patch(facecolor=each.light), name) for name, each in legend.items()],
        legend_columns=5,
    )
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    by_tone: dict[Tone, list[Box]] = {}
    for box in drawn:
        by_tone.setdefault(EVERYTHING if box.depth == 0 else tone(box.node), []).append(box)
    for each, alike in by_tone.items():
        _draw_boxes(axes, alike, each, text)
    for box in drawn:
        _draw_label(axes, box)
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.xaxis.set_major_locator(MultipleLocator(0.1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_xlabel("share of the CPU samples")
    return figure


def _draw_boxes(axes: Axes, drawn: Sequence[Box], tone: Tone, text: Callable[[Node], str]) -> None:
    """Draw the calls of a colour as one collection."""
    collection = PolyCollection(
        [
            [(left, box.depth), (left, box.depth + 1), (right, box.depth + 1), (right, box.depth)]
            for box in drawn
            for left, right in [(box.left, box.left + box.width)]
        ],
        facecolors=tone.light,
        edgecolors=SURFACE.light,
        linewidths=0.4,
        clip_on=False,
    )
    collection.set_in_layout(False)
    hover(collection, *(text(box.node) for box in drawn), most=len(drawn))
    axes.add_collection(collection, autolim=False)


def _draw_label(axes: Axes, box: Box) -> None:
    """Write the name of a call, as much of it as fits; nothing if that is too little."""
    name = drawable(short_name(clean(box.node.frame.label)))
    label = shorten(name, box.width * WIDTH_IN - 2 * _INSET_IN, _SIZE)
    if label == name or len(label) > _MIN_CHARACTERS:
        written = axes.text(
            box.left + _INSET_IN / WIDTH_IN,
            box.depth + 0.52,
            label,
            size=_SIZE,
            color=INK.light,
            va="center_baseline",
        )
        written.set_in_layout(False)


def short_name(label: str) -> str:
    """Return a Go function without the folders of its package, as Go programs call it: `http.(*conn).serve`."""
    path, slash, _ = label.partition("(")[0].rpartition("/")
    return label if {":", " "} & set(path) else label[len(path) + len(slash) :]


def shares(node: Node, whole: int) -> str:
    """Return the share of a call, and of its own time in it: `12.3 %, itself 1.2 %`."""
    itself = node.value - sum(call.value for call in node.calls.values())
    return f"{units.share(node.value / whole)}, itself {units.share(itself / whole)}"
