from __future__ import annotations

import pytest

from benchkit.errors import HostError
from benchkit.scenario.trial_order import PlannedTrial
from tests.support.builders import experiment, load, run_plan


def test_a_setting_that_is_not_applied_stops_a_run_only_where_tuning_is_required() -> None:
    plan = run_plan(experiment(), tuning_required=frozenset({"sut"}))
    plan.require_tuning("sut", [])
    plan.require_tuning("load", ["load: not applied"])
    with pytest.raises(HostError, match="a; b") as caught:
        plan.require_tuning("sut", ["a", "b"])
    assert caught.value.hint == "the scenario requires this tuning"


def test_the_duration_of_a_run_is_known_if_that_of_every_trial_is() -> None:
    trials = (PlannedTrial(1, 1, "only"), PlannedTrial(2, 1, "only"))
    timed = run_plan(experiment(load=load(warmup_s=1, duration_s=5)), planned_trials=trials)
    assert timed.seconds == pytest.approx(2 * (1 + 5 + 0.5))
    at_a_rate = experiment(load=load(tool="h2load", duration_s=None, request_count=100, rate=50))
    assert run_plan(at_a_rate, planned_trials=trials).seconds == pytest.approx(2 * (2 + 0.5))
    by_requests = experiment(load=load(tool="hey", duration_s=None, request_count=100))
    assert run_plan(by_requests, planned_trials=trials).seconds is None
