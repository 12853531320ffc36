"""What a run's own account of itself comes to: the same while it goes on and when it is taken up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import benchkit
from benchkit.errors import HostError
from benchkit.models.run import CellRecord
from benchkit.models.trial import TrialRecord
from benchkit.results.progress import read_progress
from benchkit.results.reparse import merge_outputs, read_generators
from benchkit.results.store import Store
from benchkit.results.tables import RunTables
from benchkit.run.judge import Judge
from benchkit.run.recorder import RunOutcome, RunRecorder
from benchkit.scenario.trial_order import PlannedTrial
from tests.results.test_store import WRK, manifest, record

CELL = CellRecord(cell_id="only", levels={})


def with_book(path: Path, write: Callable[[RunRecorder], None]) -> RunOutcome:
    """Write to the book of a run in this store; what came of it."""
    store = Store(path)
    made = manifest("r1", cells=(CELL,))
    outcome = RunOutcome(store.create(made))
    with outcome.run.journal() as journal:
        write(RunRecorder(outcome, RunTables(store, "small", "r1"), journal, Judge(made)))
    return outcome


def end(recorder: RunRecorder, trial_id: str) -> None:
    """A trial that ended."""
    made: TrialRecord = record(trial_id, CELL)
    raw = {"wrk.txt": WRK.encode()}
    recorder.outcome.run.commit_trial(made, raw)
    recorder.trial(made, merge_outputs(made, read_generators(made, raw.__getitem__)), raw.__getitem__)


def fail(recorder: RunRecorder, trial_id: str, planned_trial: PlannedTrial) -> None:
    """A trial that failed."""
    recorder.started(trial_id, planned_trial, 1)
    recorder.failure(trial_id, "only", HostError("broken", where="sut"))


def test_trials_of_a_block_that_runs_again_count_in_no_way_neither_those_that_ended_nor_those_that_failed(
    tmp_path: Path,
) -> None:
    def run(recorder: RunRecorder) -> None:
        end(recorder, "r1.b001.p001")
        end(recorder, "r1.b002.p001")
        fail(recorder, "r1.b002.p002", PlannedTrial(2, 2, "only"))
        recorder.skipped("r1.b002.p003", PlannedTrial(2, 3, "only"), "sut is gone")
        recorder.split(2, 2, [f"r1.b002.p00{position}" for position in (1, 2, 3)])
        end(recorder, "r1.b002r2.p001")

    outcome = with_book(tmp_path, run)
    assert (outcome.trials, outcome.failures) == (2, {})
    again = RunOutcome(outcome.run)
    again.count(read_progress(outcome.run.history()))
    assert (again.trials, again.failures) == (2, {})
    kinds = benchkit.load("trials", store=tmp_path).set_index("trial_id")["kind"].to_dict()
    assert kinds == {"r1.b001.p001": "measure", "r1.b002.p001": "split", "r1.b002r2.p001": "measure"}


def test_a_block_that_is_cut_in_its_first_trial_is_of_the_next_round_for_whoever_takes_the_run_up(
    tmp_path: Path,
) -> None:
    outcome = with_book(tmp_path, lambda recorder: recorder.split(1, 2, []))
    assert read_progress(outcome.run.history()).rounds == {1: 2}
    assert benchkit.load("trials", store=tmp_path).empty
