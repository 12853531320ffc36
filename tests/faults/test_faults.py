"""Detection of every fault, on real trials, counted for `benchkit/judge/RESULTS.md`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import pytest
from scipy.stats import binom

from tests.faults.conftest import FaultLabs
from tests.faults.fault_lab import FaultLab, JudgedTrial
from tests.faults.faults import FAULTS, ExpectedFinding, Fault
from tests.faults.scores import Scores

REQUESTED = os.environ.get("BENCHKIT_FAULT_TRIALS")
"""Trials that `make faults` asks for; None: other tests run beside these."""
TRIALS = int(REQUESTED or "1")
"""Number of trials with each fault, and without any; `make faults` uses more."""
MAX_ERROR_RATE = 0.05
"""Largest share of faulty trials without a finding, and of healthy trials with one."""
MIN_DECISIVE_TRIALS = round(1 / MAX_ERROR_RATE)
"""Trials needed to decide: of fewer, a single error exceeds the rate."""


def injected(fault: Fault, fault_lab: FaultLab, trials: int) -> Iterator[JudgedTrial]:
    """Yield this many trials with each fault, or a few more, and the others of their runs; failed ones are replaced."""
    trials_per_run = fault.trials_per_run or trials
    failed = len(fault_lab.failed)

    def run(trials: int) -> list[JudgedTrial]:
        scenario = {**fault.scenario, **fault.repetitions(trials)}
        return fault_lab.run(
            scenario, amend_plan=fault.amend_plan, hook=fault.hook(fault_lab), edit_raw_files=fault.edit_raw_files
        )

    for _ in range(math.ceil(trials / trials_per_run)):
        yield from run(trials_per_run)
    lost = fault_lab.failed[failed:]
    assert len(lost) <= 1 + MAX_ERROR_RATE * trials, lost
    if lost:
        yield from run(fault.trials_per_run or len(lost))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_noticed(fault: Fault, fault_labs: FaultLabs, scores: Scores) -> None:
    """Count the first trials, with and without the finding."""
    if fault.needs_quiet_host and REQUESTED is None:
        pytest.skip("other tests beside it hide its effect: make faults")
    fault_lab = fault_labs(fault.lab)
    failed = len(fault_lab.failed)
    with fault.context(fault_lab):
        trials = list(injected(fault, fault_lab, TRIALS))
        for expectation in fault.expected:
            assert len(faulty_trials(expectation, trials)) >= TRIALS
            scores.add(expectation, faulty_trials(expectation, trials))
        if TRIALS < MIN_DECISIVE_TRIALS and any(missed(expectation, trials) for expectation in fault.expected):
            trials += injected(fault, fault_lab, MIN_DECISIVE_TRIALS - TRIALS)
    scores.failed += fault_lab.failed[failed:]
    for expectation in fault.expected:
        lost = missed(expectation, trials)
        assert len(lost) <= most_missed(len(faulty_trials(expectation, trials))), listing(lost)


def most_missed(trials: int) -> float:
    """Return the most faulty trials without a finding; beside other tests, as many as chance allows."""
    return MAX_ERROR_RATE * trials if REQUESTED else float(binom.ppf(0.99, trials, MAX_ERROR_RATE))


def faulty_trials(expectation: ExpectedFinding, trials: Sequence[JudgedTrial]) -> list[JudgedTrial]:
    """Return the trials with the fault."""
    return [trial for trial in trials if expectation.has_fault(trial)]


def missed(expectation: ExpectedFinding, trials: Sequence[JudgedTrial]) -> list[JudgedTrial]:
    """Return the faulty trials without the expected finding."""
    return [trial for trial in faulty_trials(expectation, trials) if not expectation.is_noticed(trial)]


def listing(trials: Sequence[JudgedTrial]) -> str:
    """Return a line for each trial; pytest truncates long lists."""
    return "\n".join(["", *map(str, trials)])
