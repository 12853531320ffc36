"""Reasons not to resume a run: first that nothing is left to do, then changes of what it uses."""

from __future__ import annotations

import pytest

from benchkit.errors import InputError
from benchkit.judge.run_differences import fact_differences
from benchkit.models.facts import ProgramFact, RecordedFacts
from benchkit.run.resume import require_unfinished
from benchkit.scenario.trial_order import PlannedTrial
from tests.support.run.fixtures import OpenRecorder
from tests.unit.run.test_recorder import end_trial, fail_trial

NGINX = ProgramFact(path="/usr/sbin/nginx", version="1.22")
NODE = ProgramFact(path="node", version="20")
NEWER_NODE = ProgramFact(path="node", version="22")


def test_nothing_of_a_finished_run_is_left_to_do_without_asking_any_host(open_recorder: OpenRecorder) -> None:
    with open_recorder() as recorder:
        end_trial(recorder, PlannedTrial(1, 1, "only"))
    with pytest.raises(InputError, match="this run is finished: nothing is left to do: its status is done"):
        require_unfinished(recorder.run)
    with pytest.raises(InputError, match="nothing is left to do: no trial of it failed"):
        require_unfinished(recorder.run, retry_failed=True)


def test_a_run_with_a_failed_trial_may_have_something_left_to_do(open_recorder: OpenRecorder) -> None:
    with open_recorder() as recorder:
        fail_trial(recorder, PlannedTrial(1, 1, "only"))
    require_unfinished(recorder.run, retry_failed=True)


@pytest.mark.parametrize(("used", "changes"), [({"nginx"}, 0), ({"nginx", "node"}, 1), (set(), 0)])
def test_only_programs_that_the_run_uses_count_as_changes(used: set[str], changes: int) -> None:
    readings = (RecordedFacts(kernel="6.1", programs={"nginx": NGINX, "node": node}) for node in (NODE, NEWER_NODE))
    facts = (reading.with_programs(used) for reading in readings)
    assert len(fact_differences("host sut", *facts)) == changes


def test_facts_of_a_host_without_programs_stay_as_they_are() -> None:
    assert RecordedFacts(kernel="6.1").with_programs({"nginx"}) == RecordedFacts(kernel="6.1", programs={})
