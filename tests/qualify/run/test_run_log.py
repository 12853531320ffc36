"""The log file of a run."""

from __future__ import annotations

from collections.abc import Callable

from benchkit.run.block import STEPS, TRIAL_CLEANUP, TrialSteps
from tests.qualify.chaos.kit import SCENARIO, Bench
from tests.support.needs import kernel_settings


@kernel_settings
def test_a_run_leaves_a_log_with_the_steps_of_its_trials_and_its_hosts(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    ran = bench.run(str(SCENARIO), "--set", "blocks=1")
    assert ran.code == 0, ran.err
    log = (bench.folder() / "run.log").read_text()
    trials = bench.progress().ended
    assert len(trials) == 2
    for trial_id in trials:
        of_trials = [each for step in STEPS if isinstance(step, TrialSteps) for each in step.steps]
        of_block = [step for step in STEPS if not isinstance(step, TrialSteps)]
        for step in (*of_trials, *of_block, *TRIAL_CLEANUP):
            assert f"trial {trial_id}: {step.__name__}: done in " in log
        assert f"trial {trial_id}: attempt 1, " in log
        assert f"trial {trial_id}: ended after " in log
    assert " on load, sut" in log
    for line in ("sut: tune ", "sut: deploy ", "sut: restore settings: done in ", "load: install programs"):
        assert line in log
    assert f"run {bench.folder().name}: done: 2 trials, 0 failed" in log
