"""Outcome of every trial, cell by block: valid, suspect, invalid, failed or missing, shown by shape and by tone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.judge.verdicts.summary import count_verdicts
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.layout import (
    WIDTH_IN,
    label_rows,
    new_figure,
    row_text_size,
    rows_height,
    text_width,
    write_beside,
)
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import hover, styled
from benchkit.report.theme import INK, MUTED, SERIES, SURFACE, Tone
from benchkit.report.trial_matrix import STATES, Matrix, State, trial_matrix

TITLE = "The verdict on every trial"

MAX_CELLS, MAX_BLOCKS = 60, 120
"""Cells and blocks that are drawn at most: the cells with the worst outcomes, the first blocks."""

_MOST_LABELS_IN = 4.2
"""Width of the labels left of the matrix and the counts right of it, at most."""
_WIDEST_BLOCK_IN = 0.34
_ALARMS: tuple[State, ...] = ("failed", "invalid", "missing", "suspect")
"""Outcomes that count against a cell, the worst first."""
_MARK, _LARGEST_PT = 0.62, 9.0
"""Size of a mark relative to its place, and at most."""
_MAX_NAMED = 8
_MAX_HOVER = 160
"""Characters of a hover text at most: the reason of a failure may take lines, and the table of failures has it."""


@dataclass(frozen=True)
class _Look:
    """Shape and tone of a state; each alone identifies it, and alarms are larger and darker."""

    marker: str
    tone: Tone
    size: float = 1.0
    hollow: bool = False

    @property
    def edge(self) -> float:
        """Width of the edge."""
        return 1.2 if self.hollow or self.marker == "_" else 0.0


_LOOKS: Mapping[State, _Look] = {
    "valid": _Look("o", MUTED, 0.45),
    "suspect": _Look("^", SERIES[1]),
    "invalid": _Look("X", SERIES[3]),
    "failed": _Look("D", INK, 0.8, hollow=True),
    "missing": _Look("_", MUTED),
    "not judged": _Look("o", MUTED, 0.6, hollow=True),
}


def is_available(run: StoredRun) -> bool:
    """Return True if any trial was judged."""
    return count_verdicts(run.measured).judged > 0


def alt(run: StoredRun) -> str:
    """Describe the number of trials of each state, and the cells with the worst outcomes."""
    matrix = trial_matrix(run)
    alarming = [cell for cell in _worst_first(matrix) if _alarms(matrix, cell)][:_MAX_NAMED]
    cells = "; ".join(f"{run.labels[cell]} {_text(_alarms(matrix, cell))}" for cell in alarming)
    return f"Matrix of verdicts, cell by block: {_text(_states(matrix))}" + (f"; {cells}." if cells else ".")


def caption(run: StoredRun) -> str:
    """Explain the marks, and what is not drawn."""
    matrix = trial_matrix(run)
    return (
        "Each mark is a trial, by its block from left to right in the order in which blocks ran; if a block has a cell more "
        "than once, the worst outcome is shown. Point at a mark to see the checks that the trial did not pass. A failed "
        "trial did not end, a missing one was not run."
        + (
            f" The {MAX_CELLS} cells with the worst outcomes are drawn, the worst first; the run has {len(matrix.cells)}."
            if len(matrix.cells) > MAX_CELLS
            else ""
        )
        + (
            f" The first {MAX_BLOCKS} of {len(matrix.blocks)} blocks are drawn; the table has all."
            if len(matrix.blocks) > MAX_BLOCKS
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row for each cell, a column for each block."""
    matrix = trial_matrix(run)
    cells = _drawn(matrix)
    blocks = matrix.blocks[:MAX_BLOCKS]
    height_in = rows_height(len(cells))
    counts = {cell: _text(_alarms(matrix, cell)) for cell in cells}
    texts = max(len(run.labels[cell]) for cell in cells) + max(map(len, counts.values()))
    labels_in = min(_MOST_LABELS_IN, 0.5 + text_width(texts, row_text_size(len(cells))))
    block_in = min(_WIDEST_BLOCK_IN, (WIDTH_IN - labels_in) / len(blocks))
    figure = new_figure(
        height_in,
        title=TITLE,
        subtitle=["row: a cell \N{MIDDLE DOT} column: a block \N{MIDDLE DOT} mark: one trial"],
        source=provenance(run),
        legend=_legend(matrix),
        legend_columns=len(STATES),
        used_width=(labels_in + block_in * len(blocks)) / WIDTH_IN,
    )
    axes = figure.subplots()
    _draw_marks(axes, matrix, cells, run.labels, min(_LARGEST_PT, 72 * _MARK * min(height_in / len(cells), block_in)))
    label_rows(axes, {y: run.labels[cell] for y, cell in enumerate(cells)}, len(cells))
    for y, text in enumerate(counts.values()):
        write_beside(axes, y, text, len(cells))
    axes.set_xlim(0.5, len(blocks) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=min(20, len(blocks)), integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _block_number(value, blocks)))
    axes.set_xlabel("block")
    return figure


FIGURE = ReportFigure(
    name="verdict-matrix",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A row of marks of one kind is a cell whose trials agree; look for the cells with invalid or missing trials.",
    draw=draw,
    data="verdicts",
)


def _states(matrix: Matrix) -> Counter[State]:
    """Return the number of trials of each state."""
    return Counter(outcome.state for outcome in matrix.outcomes.values())


def _alarms(matrix: Matrix, cell: str) -> Counter[State]:
    """Return the number of a cell's trials in each state that counts against it."""
    return Counter(outcome.state for outcome in matrix.of_cell(cell) if outcome and outcome.state in _ALARMS)


def _text(states: Counter[State]) -> str:
    """Return the numbers as text: `8 valid, 2 invalid`."""
    return ", ".join(f"{units.count(states[state])} {state}" for state in STATES if states[state])


def _worst_first(matrix: Matrix) -> list[str]:
    """Return the cells, those with the worst outcomes first, otherwise in the order of the plan."""
    alarms = {cell: _alarms(matrix, cell) for cell in matrix.cells}
    return sorted(matrix.cells, key=lambda cell: [-alarms[cell][state] for state in _ALARMS])


def _drawn(matrix: Matrix) -> Sequence[str]:
    return matrix.cells if len(matrix.cells) <= MAX_CELLS else _worst_first(matrix)[:MAX_CELLS]


def _block_number(place: float, blocks: Sequence[int]) -> str:
    """Return the number of the block at a place of the axis; the first is at 1."""
    i = round(place) - 1
    return str(blocks[i]) if 0 <= i < len(blocks) else ""


def _draw_marks(axes: Axes, matrix: Matrix, cells: Sequence[str], labels: Mapping[str, str], size_pt: float) -> None:
    """Draw a collection for each state, its marks row by row."""
    blocks = matrix.blocks[:MAX_BLOCKS]
    for state in STATES:
        marks = [
            (x, y, f"{labels[cell]}, block {block}: {outcome.description}")
            for y, cell in enumerate(cells)
            for x, (block, outcome) in enumerate(zip(blocks, matrix.of_cell(cell), strict=False), start=1)
            if outcome is not None and outcome.state == state
        ]
        if not marks:
            continue
        look = _LOOKS[state]
        across, down, texts = zip(*marks, strict=True)
        drawn = axes.scatter(
            across,
            down,
            s=(look.size * size_pt) ** 2,
            marker=look.marker,
            color=SURFACE.light if look.hollow else look.tone.light,
            edgecolors=None if look.marker == "_" else look.tone.light,
            linewidths=look.edge,
            zorder=3,
            clip_on=False,
        )
        drawn.set_in_layout(False)
        hover(drawn, *(text if len(text) <= _MAX_HOVER else f"{text[:_MAX_HOVER]}…" for text in texts))


def _legend(matrix: Matrix) -> list[tuple[Artist, str]]:
    """Return the states that occur, each with its mark and its number of trials."""
    states = _states(matrix)
    return [
        (
            Line2D(
                [],
                [],
                linestyle="",
                marker=look.marker,
                markersize=7 * look.size,
                markerfacecolor=SURFACE.light if look.hollow else look.tone.light,
                markeredgecolor=look.tone.light,
                markeredgewidth=look.edge,
            ),
            f"{units.count(states[state])} {state}",
        )
        for state, look in _LOOKS.items()
        if states[state]
    ]
