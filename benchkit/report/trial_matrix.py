"""The outcome of every planned trial of a run, cell by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from benchkit.judge.verdict_summary import checks_by_trial, verdict_label
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.safe_text import clean

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
    """Outcome of each cell in the blocks that were planned with it; `missing` if the journal has none."""

    def of_cell(self, cell_id: str) -> list[TrialOutcome | None]:
        """Return the outcomes of a cell, block by block; None for a block that was planned without it."""
        return [self.outcomes.get((cell_id, block)) for block in self.blocks]


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
