"""What became of every trial, cell by block: valid, suspect, invalid, failed or missing, told by shape and by tone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.analysis.verdicts.summary import count_verdicts
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.row_layout import cut, lay, room_for, row_height, text_size, write
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import drawable, hover, styled
from benchkit.report.theme import INK, MUTED, SERIES, SURFACE, Tone
from benchkit.report.trial_matrix import STATES, Matrix, State, matrix

TITLE = "The verdict on every trial"

MOST_CELLS, MOST_BLOCKS = 60, 120
"""Of more cells those are drawn that have most against them, of more blocks the first."""

_AXIS_IN, _KEY_IN, _MOST_LABEL_IN, _WRITTEN_IN, _WIDEST_BLOCK_IN = 0.45, 0.28, 2.6, 1.7, 0.34
_ALARMS: tuple[State, ...] = ("failed", "invalid", "missing", "suspect")
"""The gravest first."""
_MARK, _LARGEST_PT = 0.62, 9.0
"""How much of its place a mark fills, and its size at most."""
_NAMED = 8
_SAID = 160
"""So many characters are shown of a mark; why a trial failed may take lines, and the table of failures has them all."""


@dataclass(frozen=True)
class _Look:
    """How a state is drawn: by shape and tone at once, so that either tells it; alarms are larger and darker."""

    marker: str
    tone: Tone
    size: float = 1.0
    hollow: bool = False


_LOOKS: Mapping[State, _Look] = {
    "valid": _Look("o", MUTED, 0.45),
    "suspect": _Look("^", SERIES[1]),
    "invalid": _Look("X", SERIES[3]),
    "failed": _Look("D", INK, 0.8, hollow=True),
    "missing": _Look("_", MUTED),
    "not judged": _Look("o", MUTED, 0.6, hollow=True),
}


def available(run: StoredRun) -> bool:
    """Whether any trial was judged."""
    return count_verdicts(run.measured).judged > 0


def alt(run: StoredRun) -> str:
    """How many trials are of each kind, and the cells with most against them, in words."""
    found = matrix(run)
    alarming = [cell for cell in _gravest_first(found) if _against(found, cell)][:_NAMED]
    labels = _labels(run)
    cells = "; ".join(f"{labels[cell]} {_said(_against(found, cell))}" for cell in alarming)
    return f"Matrix of verdicts, cell by block: {_said(_all(found))}" + (f"; {cells}." if cells else ".")


def caption(run: StoredRun) -> str:
    """What marks mean, and what is left out."""
    found = matrix(run)
    return (
        "Each mark is a trial, by its block from left to right in the order in which blocks ran; of a cell that a block has "
        "more than once the gravest is shown. Pointing at a mark names the checks that are against the trial. A trial "
        "failed where it did not end, and is missing where it was not carried out."
        + (
            f" The {MOST_CELLS} cells with most against them are drawn, those first; the run has {len(found.cells)}."
            if len(found.cells) > MOST_CELLS
            else ""
        )
        + (
            f" The first {MOST_BLOCKS} of {len(found.blocks)} blocks are drawn; the table has all."
            if len(found.blocks) > MOST_BLOCKS
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: a row for each cell, a column for each block."""
    found, labels = matrix(run), _labels(run)
    cells = _drawn(found)
    blocks = found.blocks[:MOST_BLOCKS]
    row_in = row_height(len(cells))
    size = text_size(row_in)
    height_in = row_in * (len(cells) + 0.2)
    frame = framed(
        height_in=_KEY_IN + height_in + _AXIS_IN,
        title=TITLE,
        subtitle=["row: a cell \N{MIDDLE DOT} column: a block \N{MIDDLE DOT} mark: one trial"],
        foot=provenance(run),
    )
    texts = [drawable(labels[cell]) for cell in cells]
    labels_in = min(_MOST_LABEL_IN, max(room_for(text, size) for text in texts)) + 2 * EDGE_IN
    block_in = min(_WIDEST_BLOCK_IN, (WIDTH_IN - labels_in - _WRITTEN_IN - EDGE_IN) / len(blocks))
    axes = frame.axes(labels_in, _KEY_IN, block_in * len(blocks), height_in)
    size_pt = min(_LARGEST_PT, 72 * _MARK * min(row_in, block_in))
    _draw_marks(axes, found, cells, labels=labels, size_pt=size_pt)
    for y, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        write(axes, y, cut(text, labels_in - EDGE_IN, size), size, left=True)
        if against := _against(found, cell):
            write(axes, y, _said(against), size, left=False)
    lay(axes, len(cells))
    axes.set_xlim(0.5, len(blocks) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=min(20, len(blocks)), integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _numbered(value, blocks)))
    axes.set_xlabel("block")
    _draw_keys(frame.figure, frame.top_in, found)
    return frame.figure


FIGURE = ReportFigure(
    name="verdict-matrix", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="verdicts"
)


def _labels(run: StoredRun) -> Mapping[str, str]:
    return {view.cell_id: view.label for view in run.cells}


def _all(found: Matrix) -> Counter[State]:
    """How many trials are of each kind."""
    return Counter(fate.state for fate in found.fates.values())


def _against(found: Matrix, cell: str) -> Counter[State]:
    """How many trials of a cell have something against them, by kind."""
    return Counter(fate.state for fate in found.of_cell(cell) if fate.state in _ALARMS)


def _said(states: Counter[State]) -> str:
    """`8 valid, 2 invalid`."""
    return ", ".join(f"{units.count(states[state])} {state}" for state in STATES if states[state])


def _gravest_first(found: Matrix) -> list[str]:
    """The cells, those with most against them first, else in the order of the plan."""
    against = {cell: _against(found, cell) for cell in found.cells}
    return sorted(found.cells, key=lambda cell: [-against[cell][state] for state in _ALARMS])


def _drawn(found: Matrix) -> Sequence[str]:
    return found.cells if len(found.cells) <= MOST_CELLS else _gravest_first(found)[:MOST_CELLS]


def _numbered(place: float, blocks: Sequence[int]) -> str:
    """The number of the block at a place of the axis; its first is at 1."""
    i = round(place) - 1
    return str(blocks[i]) if 0 <= i < len(blocks) else ""


def _draw_marks(axes: Axes, found: Matrix, cells: Sequence[str], *, labels: Mapping[str, str], size_pt: float) -> None:
    """A collection for each kind, its marks row by row."""
    for state in STATES:
        places = [
            (x, y, f"{labels[cell]}, block {block}: {found.fates[cell, block].said}")
            for y, cell in enumerate(cells)
            for x, block in enumerate(found.blocks[:MOST_BLOCKS], start=1)
            if found.fates[cell, block].state == state
        ]
        if not places:
            continue
        look = _LOOKS[state]
        across, down, texts = zip(*places, strict=True)
        marks = axes.scatter(
            across,
            down,
            s=(look.size * size_pt) ** 2,
            marker=look.marker,
            color=SURFACE.light if look.hollow else look.tone.light,
            edgecolors=None if look.marker == "_" else look.tone.light,
            linewidths=_edge(look),
            zorder=3,
            clip_on=False,
        )
        hover(marks, *(text if len(text) <= _SAID else f"{text[:_SAID]}…" for text in texts))


def _edge(look: _Look) -> float:
    return 1.2 if look.hollow or look.marker == "_" else 0.0


def _draw_keys(figure: Figure, top_in: float, found: Matrix) -> None:
    """The kinds that there are, each with its mark and its number."""
    states = [state for state in STATES if _all(found)[state]]
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=look.marker,
            markersize=7 * look.size,
            markerfacecolor=SURFACE.light if look.hollow else look.tone.light,
            markeredgecolor=look.tone.light,
            markeredgewidth=_edge(look),
        )
        for look in map(_LOOKS.__getitem__, states)
    ]
    figure.legend(
        handles,
        [f"{units.count(_all(found)[state])} {state}" for state in states],
        loc="upper left",
        bbox_to_anchor=(EDGE_IN / WIDTH_IN, 1 - top_in / figure.get_figheight()),
        ncols=len(states),
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.6,
    )
