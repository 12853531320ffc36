"""What became of every trial that was planned, cell by block. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from benchkit.analysis.verdicts.summary import checks_by_trial, verdict_label
from benchkit.report.clean_text import clean
from benchkit.report.stored_run import StoredRun, once

State = Literal["valid", "suspect", "invalid", "failed", "missing", "not judged"]

STATES: tuple[State, ...] = ("valid", "suspect", "invalid", "failed", "missing", "not judged")

_VERDICTS: Mapping[object, State] = {"valid": "valid", "suspect": "suspect", "invalid": "invalid"}

_GRAVEST: tuple[State, ...] = ("failed", "invalid", "missing", "suspect", "not judged", "valid")
"""Which of several trials of a cell in a block stands for them."""


@dataclass(frozen=True)
class TrialOutcome:
    """What became of a cell in a block, in a word and as it is said."""

    state: State
    said: str


@dataclass(frozen=True)
class Matrix:
    """The cells that these hosts carry, in the order of the plan, by the blocks that were begun."""

    cells: tuple[str, ...]
    blocks: tuple[int, ...]
    fates: Mapping[tuple[str, int], TrialOutcome]
    """Of each cell and block; `missing` where nothing is known to have become of it."""

    def of_cell(self, cell_id: str) -> list[TrialOutcome]:
        """A row, block by block."""
        return [self.fates[cell_id, block] for block in self.blocks]


@once
def matrix(run: StoredRun) -> Matrix:
    """The measured trials of a run. Of a cell that a block has more than once the gravest stands for all of them."""
    found: dict[tuple[str, int], TrialOutcome] = {}
    for place, fate in (*_ended(run), *_not_ended(run)):
        if place not in found or _GRAVEST.index(fate.state) < _GRAVEST.index(found[place].state):
            found[place] = fate
    blocks = tuple(sorted({block for _, block in found}))
    cells = tuple(view.cell_id for view in run.cells if view.unsupported is None)
    missing = TrialOutcome("missing", "missing: it was not carried out")
    return Matrix(
        cells, blocks, {(cell, block): found.get((cell, block), missing) for cell in cells for block in blocks}
    )


def _ended(run: StoredRun) -> Iterator[tuple[tuple[str, int], TrialOutcome]]:
    checks = checks_by_trial(run.verdicts)
    columns = (run.measured[name] for name in ("cell_id", "block", "verdict", "trial_id"))
    for cell_id, block, verdict, trial_id in zip(*columns, strict=True):
        state = _VERDICTS.get(verdict, "not judged")
        yield (str(cell_id), int(block)), TrialOutcome(state, verdict_label(state, checks.get(str(trial_id), ())))


def _not_ended(run: StoredRun) -> Iterator[tuple[tuple[str, int], TrialOutcome]]:
    """Trials that failed for good or were left out; those of the profile pass come after all blocks."""
    progress = run.progress
    kinds: tuple[tuple[State, str, Mapping[str, str]], ...] = (
        ("failed", "failed", progress.failed),
        ("missing", "left out", progress.skipped),
    )
    for state, word, whys in kinds:
        for trial_id, why in whys.items():
            place = progress.positions.get(trial_id)
            if place is None or place.block > run.manifest.blocks:
                continue
            if place.round == progress.rounds.get(place.block, 1):
                yield (place.cell_id, place.block), TrialOutcome(state, f"{word}: {clean(why)}")
