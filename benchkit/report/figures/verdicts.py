"""The figure of verdicts: the outcome of every planned trial, cell by block, by shape and by tone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.judge.verdict_summary import count_verdicts
from benchkit.report.figure import ReportFigure
from benchkit.report.layout import WIDTH_IN, mark_legend, row_text_size, rows_height, text_width
from benchkit.report.panels import FigureRow, Panel, Scale, draw_marks, draw_rows, notes
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import MarkStyle, style
from benchkit.report.theme import INK, MUTED, SERIES
from benchkit.report.trial_matrix import ALARMS, TRIAL_STATES, TrialMatrix, TrialState, trial_matrix

MAX_CELLS, MAX_BLOCKS = 60, 120
"""Cells and blocks that are drawn at most: the cells with the worst outcomes, the first blocks."""

_MOST_LABELS_IN = 4.2
"""Width of the labels left of the matrix and the counts right of it, at most."""
_WIDEST_BLOCK_IN = 0.34
_MARK, _LARGEST_PT = 0.62, 9.0
"""Size of a mark relative to its place, and its largest size in points."""
_MAX_NAMED = 8
_MAX_HOVER = 160
"""Characters of a hover text at most: the reason of a failure may take lines, and the table of failures has it."""


_MARK_STYLES: Mapping[TrialState, MarkStyle] = {
    "valid": MarkStyle("o", MUTED.light, 0.45),
    "suspect": MarkStyle("^", SERIES[1].light),
    "invalid": MarkStyle("X", SERIES[3].light),
    "failed": MarkStyle("D", INK.light, 0.8, hollow=True),
    "missing": MarkStyle("_", MUTED.light),
    "not judged": MarkStyle("o", MUTED.light, 0.6, hollow=True),
}
"""Look of each state: shape and tone each identify it, and alarms are larger and darker."""


def _alt(run: StoredRun) -> str:
    matrix = trial_matrix(run)
    alarming = [cell for cell in _worst_first(matrix) if _alarms(matrix, cell)][:_MAX_NAMED]
    cells = "; ".join(f"{run.labels[cell]} {_text(_alarms(matrix, cell))}" for cell in alarming)
    return f"Matrix of verdicts, cell by block: {_text(_states(matrix))}" + (f"; {cells}." if cells else ".")


def _caption(run: StoredRun) -> str:
    matrix = trial_matrix(run)
    return (
        "Each mark is a trial. Blocks are from left to right in the order in which they ran. If a block has a cell more "
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


@style()
def _draw(run: StoredRun) -> Figure:
    matrix = trial_matrix(run)
    cells = matrix.cells if len(matrix.cells) <= MAX_CELLS else _worst_first(matrix)[:MAX_CELLS]
    blocks = matrix.blocks[:MAX_BLOCKS]
    rows = [FigureRow(y, run.labels[cell], _text(_alarms(matrix, cell))) for y, cell in enumerate(cells)]
    texts = max(len(row.name) for row in rows) + max(len(row.beside) for row in rows)
    labels_in = min(_MOST_LABELS_IN, 0.5 + text_width(texts, row_text_size(len(rows))))
    block_in = min(_WIDEST_BLOCK_IN, (WIDTH_IN - labels_in) / len(blocks))
    size_pt = min(_LARGEST_PT, 72 * _MARK * min(rows_height(len(rows)) / len(rows), block_in))
    marks = _marks(matrix, cells, run.labels)

    def draw(axes: Axes) -> None:
        for state, look in _MARK_STYLES.items():
            draw_marks(axes, marks[marks["state"] == state], look, area=size_pt**2)

    states = _states(matrix)
    declaration = VERDICTS.declaration(
        run,
        notes("row: a cell", "column: a block", "mark: one trial"),
        legend=mark_legend(
            [(look, f"{units.count(states[state])} {state}") for state, look in _MARK_STYLES.items() if states[state]]
        ),
    )
    scale = Scale(
        lambda place: _block_number(place, blocks),
        "block",
        low=0.5,
        high=len(blocks) + 0.5,
        ticks=min(20, len(blocks)),
        whole=True,
    )
    used_width = (labels_in + block_in * len(blocks)) / WIDTH_IN
    return draw_rows(declaration, rows, [Panel(draw, scale)], used_width=used_width)


VERDICTS = ReportFigure(
    name="verdict-matrix",
    title="The verdict on every trial",
    is_available=lambda run: count_verdicts(run.measured).judged > 0,
    alt=_alt,
    caption=_caption,
    see="A row of marks of one kind is a cell whose trials agree; mark for the cells with invalid or missing trials.",
    draw=_draw,
    data="verdicts",
)


def _states(matrix: TrialMatrix) -> Counter[TrialState]:
    return Counter(outcome.state for outcome in matrix.outcomes.values())


def _alarms(matrix: TrialMatrix, cell: str) -> Counter[TrialState]:
    """Return the number of a cell's trials in each state that counts against it."""
    return Counter(outcome.state for outcome in matrix.of_cell(cell) if outcome and outcome.state in ALARMS)


def _text(states: Counter[TrialState]) -> str:
    """Return the numbers as text: `8 valid, 2 invalid`."""
    return ", ".join(f"{units.count(states[state])} {state}" for state in TRIAL_STATES if states[state])


def _worst_first(matrix: TrialMatrix) -> list[str]:
    """Return the cells, those with the worst outcomes first, otherwise in the order of the plan."""
    alarms = {cell: _alarms(matrix, cell) for cell in matrix.cells}
    return sorted(matrix.cells, key=lambda cell: [-alarms[cell][state] for state in ALARMS])


def _block_number(place: float, blocks: Sequence[int]) -> str:
    """Return the number of the block at a place of the axis; the first is at 1."""
    i = round(place) - 1
    return str(blocks[i]) if 0 <= i < len(blocks) else ""


def _marks(matrix: TrialMatrix, cells: Sequence[str], labels: Mapping[str, str]) -> pd.DataFrame:
    """Return a mark for each trial, row by row: x, y, state, text."""
    blocks = matrix.blocks[:MAX_BLOCKS]
    marks = [
        (x, y, outcome.state, f"{labels[cell]}, block {block}: {outcome.description}")
        for y, cell in enumerate(cells)
        for x, (block, outcome) in enumerate(zip(blocks, matrix.of_cell(cell), strict=False), start=1)
        if outcome is not None
    ]
    texts = [text if len(text) <= _MAX_HOVER else f"{text[:_MAX_HOVER]}…" for *_, text in marks]
    return pd.DataFrame(marks, columns=["x", "y", "state", "text"]).assign(text=texts)
