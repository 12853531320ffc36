"""The figure of verdicts: the outcome of every planned trial, cell by block, by shape and by tone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from benchkit import units
from benchkit.judge.verdicts import checks_by_trial, count_verdicts, verdict_label
from benchkit.report.chart import (
    MAX_ROWS,
    WIDTH_IN,
    Chart,
    ChartRow,
    Panel,
    Scale,
    and_more,
    mark_legend,
    notes,
    text_size,
    text_width,
)
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import marks
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import INK, MUTED, SERIES, MarkStyle
from benchkit.safe_text import clean

MAX_BLOCKS = 120
"""Blocks that are drawn at most: the first."""
_MOST_LABELS_IN, _WIDEST_BLOCK_IN = 4.2, 0.34
"""Width of the labels beside the matrix, and of a block, at most."""
_MARK, _LARGEST_PT = 0.62, 9.0
"""Size of a mark relative to its place, and its largest size in points."""
_MAX_HOVER = 160
"""Characters of a hover text at most: the reason of a failure may take lines, and the table of failures has it."""

TrialState = Literal["valid", "suspect", "invalid", "failed", "missing", "not judged"]

TRIAL_STATES: tuple[TrialState, ...] = get_args(TrialState)

ALARMS: tuple[TrialState, ...] = ("failed", "invalid", "missing", "suspect")
"""Outcomes that count against a cell, the worst first."""
_WORST_FIRST: tuple[TrialState, ...] = (*ALARMS, "not judged", "valid")
"""Order in which one of several trials of a cell in a block is shown for all of them."""


@dataclass(frozen=True)
class TrialOutcome:
    """Outcome of a cell in a block, with its description."""

    state: TrialState
    description: str


@dataclass(frozen=True)
class TrialMatrix:
    """Supported cells in the order of the plan, by the blocks that were started."""

    cells: tuple[str, ...]
    blocks: tuple[int, ...]
    outcomes: Mapping[tuple[str, int], TrialOutcome]
    """Outcome of each cell in each block; `missing` if the journal has none."""

    def of_cell(self, cell_id: str) -> list[TrialOutcome]:
        """Return the outcomes of a cell, block by block."""
        return [self.outcomes[cell_id, block] for block in self.blocks]


@cached_per_run
def trial_matrix(run: StoredRun) -> TrialMatrix:
    """Return the outcomes of a run's measured trials; if a block has a cell more than once, the worst."""
    outcomes: dict[tuple[str, int], TrialOutcome] = {}
    for place, outcome in (*_ended(run), *_not_ended(run)):
        known = outcomes.setdefault(place, outcome)
        if _WORST_FIRST.index(outcome.state) < _WORST_FIRST.index(known.state):
            outcomes[place] = outcome
    blocks = tuple(sorted({block for _, block in outcomes}))
    cells = tuple(view.cell_id for view in run.cells if view.unsupported is None)
    missing = TrialOutcome("missing", "missing: not run")
    planned = ((cell, block) for cell in cells for block in blocks)
    return TrialMatrix(cells, blocks, dict.fromkeys(planned, missing) | outcomes)


def _ended(run: StoredRun) -> Iterator[tuple[tuple[str, int], TrialOutcome]]:
    checks = checks_by_trial(run.verdicts)
    columns = (run.measured[name] for name in ("cell_id", "block", "verdict", "trial_id"))
    for cell_id, block, verdict, trial_id in zip(*columns, strict=True):
        state: TrialState = "not judged" if pd.isna(verdict) else verdict
        yield (str(cell_id), int(block)), TrialOutcome(state, verdict_label(state, checks.get(str(trial_id), ())))


def _not_ended(run: StoredRun) -> Iterator[tuple[tuple[str, int], TrialOutcome]]:
    """Yield the trials that failed or were skipped, except trials of the profile pass (after all blocks)."""
    progress = run.progress
    kinds: tuple[tuple[TrialState, str, Mapping[str, str]], ...] = (
        ("failed", "failed", progress.failed),
        ("missing", "skipped", progress.skipped),
    )
    for state, word, reasons in kinds:
        for trial_id, reason in reasons.items():
            position = progress.positions.get(trial_id)
            if position is None or position.block > run.manifest.blocks:
                continue
            if position.round == progress.rounds.get(position.block, 1):
                yield (position.cell_id, position.block), TrialOutcome(state, f"{word}: {clean(reason)}")


_MARK_STYLES: Mapping[TrialState, MarkStyle] = {
    "valid": MarkStyle("o", MUTED.light, 0.45),
    "suspect": MarkStyle("^", SERIES[1].light),
    "invalid": MarkStyle("X", SERIES[3].light),
    "failed": MarkStyle("D", INK.light, 0.8, hollow=True),
    "missing": MarkStyle("_", MUTED.light),
    "not judged": MarkStyle("o", MUTED.light, 0.6, hollow=True),
}
"""Look of each state: shape and tone each identify it, and alarms are larger and darker."""


def _chart(run: StoredRun) -> Chart | None:
    if not count_verdicts(run.measured).judged:
        return None
    matrix = trial_matrix(run)
    cells = matrix.cells if len(matrix.cells) <= MAX_ROWS else _worst_first(matrix)[:MAX_ROWS]
    blocks = matrix.blocks[:MAX_BLOCKS]
    rows = [ChartRow(run.labels[cell], _text(_alarms(matrix, cell))) for cell in cells]
    texts = max(len(row.name) for row in rows) + max(len(row.beside) for row in rows)
    labels_in = min(_MOST_LABELS_IN, 0.5 + text_width(texts, text_size(len(rows))))
    block_in = min(_WIDEST_BLOCK_IN, (WIDTH_IN - labels_in) / len(blocks))
    area = min(_LARGEST_PT, 72 * _MARK * block_in) ** 2
    frame = _marks(matrix, cells, run.labels)
    states = Counter(outcome.state for outcome in matrix.outcomes.values())
    names = {float(place): str(block) for place, block in enumerate(blocks, start=1)}
    return Chart(
        caption="A row of equal marks is a cell whose trials agree, and larger marks are trials to be used with care or not at all"
        + and_more(len(matrix.cells) - MAX_ROWS, "cell")
        + and_more(len(matrix.blocks) - MAX_BLOCKS, "block")
        + ".",
        panels=[
            Panel(
                [marks(frame[frame["state"] == state], look, area=area) for state, look in _MARK_STYLES.items()],
                Scale(
                    lambda place: names.get(place, ""),
                    "block",
                    low=0.5,
                    high=len(blocks) + 0.5,
                    ticks=min(20, len(blocks)),
                    whole=True,
                ),
            )
        ],
        rows=rows,
        subtitle=[notes("row: a cell", "column: a block", "mark: one trial, or the worst of a cell in a block")],
        legend=mark_legend(
            [(look, f"{units.count(states[state])} {state}") for state, look in _MARK_STYLES.items() if states[state]]
        ),
        width=(labels_in + block_in * len(blocks)) / WIDTH_IN,
    )


VERDICTS = ReportFigure("verdict-matrix", "The verdict on every trial", _chart, data="validity")


def _alarms(matrix: TrialMatrix, cell: str) -> Counter[TrialState]:
    """Return the number of a cell's trials in each state that counts against it."""
    return Counter(outcome.state for outcome in matrix.of_cell(cell) if outcome.state in ALARMS)


def _text(states: Counter[TrialState]) -> str:
    return ", ".join(f"{units.count(states[state])} {state}" for state in TRIAL_STATES if states[state])


def _worst_first(matrix: TrialMatrix) -> list[str]:
    """Return the cells, those with the worst outcomes first, otherwise in the order of the plan."""
    alarms = {cell: _alarms(matrix, cell) for cell in matrix.cells}
    return sorted(matrix.cells, key=lambda cell: [-alarms[cell][state] for state in ALARMS])


def _marks(matrix: TrialMatrix, cells: Sequence[str], labels: Mapping[str, str]) -> pd.DataFrame:
    """Return a mark for each trial, row by row: x, y, state, text."""
    rows = [
        (x, y, outcome.state, f"{labels[cell]}, block {block}: {outcome.description}"[:_MAX_HOVER])
        for y, cell in enumerate(cells)
        for x, (block, outcome) in enumerate(zip(matrix.blocks[:MAX_BLOCKS], matrix.of_cell(cell), strict=False), 1)
    ]
    return pd.DataFrame(rows, columns=["x", "y", "state", "text"])
