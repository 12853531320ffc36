"""The outcome that a recorder keeps: the same in an uninterrupted run and in a resumed one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import benchkit
from benchkit.errors import BenchkitError
from benchkit.run.recorder import RunOutcome, RunRecorder, recording
from benchkit.run.retries import Retry
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.journal import RunEnded, read_progress
from benchkit.store.trial_tables import read_output
from benchkit.store.verification import check_store, read_checksums
from tests.support.run.fixtures import CELL, OpenRecorder
from tests.unit.store.test_store import WRK, record


def end_trial(recorder: RunRecorder, planned_trial: PlannedTrial) -> None:
    """Store and record a trial that ended."""
    trial, raw = record(recorder.trial_id(planned_trial), CELL), {"wrk.txt": WRK.encode()}
    recorder.run.commit_trial(trial, raw)
    recorder.record_trial_ended(trial, read_output(trial, raw.__getitem__), raw.__getitem__)


def fail_trial(recorder: RunRecorder, planned_trial: PlannedTrial) -> None:
    """Record a trial that failed."""
    recorder.record_trial_started(planned_trial, 1)
    recorder.record_trial_failed(planned_trial, "sut: broken", "server", Retry(is_retried=False))


def test_trials_of_a_repeated_block_are_not_counted_whether_they_ended_failed_or_were_skipped(
    open_recorder: OpenRecorder,
) -> None:
    first_round = [PlannedTrial(2, position, "only") for position in (1, 2, 3)]
    with open_recorder() as recorder:
        end_trial(recorder, PlannedTrial(1, 1, "only"))
        end_trial(recorder, first_round[0])
        fail_trial(recorder, first_round[1])
        recorder.record_trial_skipped(first_round[2], "sut is gone")
        recorder.record_interrupted_block(2, 2, first_round)
        end_trial(recorder, PlannedTrial(2, 1, "only", round=2))
    outcome = recorder.outcome
    assert (outcome.trials, outcome.failures) == (2, {})
    resumed = RunOutcome(outcome.run)
    resumed.count_finished_trials(read_progress(outcome.run.history()))
    assert (resumed.trials, resumed.failures) == (2, {})
    kinds = benchkit.load("trials", store=recorder.store.path).set_index("trial_id")["kind"].to_dict()
    assert kinds == {"r1.b001.p001": "measure", "r1.b002.p001": "split", "r1.b002r2.p001": "measure"}


def test_a_resumed_run_knows_the_round_of_a_block_that_was_interrupted_in_its_first_trial(
    open_recorder: OpenRecorder,
) -> None:
    with open_recorder() as recorder:
        recorder.record_interrupted_block(1, 2, [])
    assert read_progress(recorder.run.history()).rounds == {1: 2}
    assert benchkit.load("trials", store=recorder.store.path).empty


def test_a_run_with_a_failed_trial_ends_as_failed(open_recorder: OpenRecorder) -> None:
    with open_recorder() as recorder:
        fail_trial(recorder, PlannedTrial(1, 1, "only"))
    (ended,) = (event for event in recorder.run.history() if isinstance(event, RunEnded))
    assert (ended.status, ended.trials, ended.failed) == ("failed", 0, 1)
    assert recorder.run.manifest().status == "failed"


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_run_whose_folder_is_gone_stops_at_the_next_trial_and_creates_no_other(
    open_recorder: OpenRecorder, tmp_path: Path, how: str
) -> None:
    def remove() -> None:
        if how == "deleted":
            shutil.rmtree(tmp_path / "runs")
            shutil.rmtree(tmp_path / "tables")
        else:
            for name in ("runs", "tables"):
                (tmp_path / name).rename(tmp_path / f"other-{name}")

    reached = []
    with pytest.raises(BenchkitError, match="deleted or moved") as caught, open_recorder() as recorder:  # noqa: PT012 - the block is the run
        end_trial(recorder, PlannedTrial(1, 1, "only"))
        remove()
        recorder.record_trial_started(PlannedTrial(1, 2, "only"), 1)
        reached.append("another trial")
    assert (reached, caught.value.exit_code) == ([], 1)
    assert "services are stopped and hosts restored" in str(caught.value)
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "tables").exists()


def test_raw_files_of_a_run_whose_folder_is_gone_are_stored_nowhere(
    open_recorder: OpenRecorder, tmp_path: Path
) -> None:
    with pytest.raises(BenchkitError, match="deleted or moved"), open_recorder() as recorder:  # noqa: PT012 - the block is the run
        shutil.rmtree(tmp_path / "runs")
        end_trial(recorder, PlannedTrial(1, 1, "only"))
    assert not (tmp_path / "runs").exists()


def test_a_run_that_ends_has_checksums_and_a_resumed_one_has_none(open_recorder: OpenRecorder) -> None:
    with open_recorder() as recorder:
        end_trial(recorder, PlannedTrial(1, 1, "only"))
    (checked,) = check_store(recorder.store, "r1")
    assert (checked.status, checked.damages) == ("intact", {})
    assert len(read_checksums(recorder.store, recorder.run) or ()) > 4
    with recorder.run.locked(), recording(recorder.run, recorder.store):
        assert read_checksums(recorder.store, recorder.run) is None
    assert read_checksums(recorder.store, recorder.run) is not None
