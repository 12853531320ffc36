"""Every fault is noticed: proved on real trials, and counted for the README."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.faults.faults import FAULTS, Fault, Proof
from tests.faults.scores import Scores
from tests.faults.stage import Judged, Stage

pytestmark = pytest.mark.lab

TRIALS = int(os.environ.get("BENCHKIT_FAULT_TRIALS", "3"))
"""With each fault, and without any; `make faults` asks for more."""
MOST_WRONG = 0.05
"""Of the trials with a fault as many may be missed, and of the healthy ones as many raise an alarm."""
SETTLED = round(1 / MOST_WRONG)
"""With fewer trials a single one is more than that: where one of them is wrong, it takes so many to tell."""
Stages = Callable[[str], Stage]


def injected(fault: Fault, stage: Stage, trials: int) -> Iterator[Judged]:
    """So many trials with each fault, or a few more, and whatever stands beside them; those that failed are made up for."""
    at_once = fault.at_once or trials
    failed = len(stage.failed)

    def run(trials: int) -> list[Judged]:
        scenario = {**fault.scenario, **fault.repeated(trials)}
        return stage.run(scenario, amend=fault.amend, meanwhile=fault.each(stage), doctor=fault.doctor)

    for _ in range(math.ceil(trials / at_once)):
        yield from run(at_once)
    lost = stage.failed[failed:]
    assert len(lost) <= 1 + MOST_WRONG * trials, lost
    if lost:
        yield from run(fault.at_once or len(lost))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_noticed(fault: Fault, stages: Stages, scores: Scores) -> None:
    """The trials asked for are those that are counted, whatever comes of them."""
    stage = stages(fault.lab)
    failed = len(stage.failed)
    with fault.around(stage):
        trials = list(injected(fault, stage, TRIALS))
        for proof in fault.proofs:
            assert len(struck(proof, trials)) >= TRIALS
            scores.add(proof, struck(proof, trials))
        if TRIALS < SETTLED and any(missed(proof, trials) for proof in fault.proofs):
            trials += injected(fault, stage, SETTLED - TRIALS)
    scores.failed += stage.failed[failed:]
    for proof in fault.proofs:
        lost = missed(proof, trials)
        assert len(lost) <= MOST_WRONG * len(struck(proof, trials)), told(lost)


def struck(proof: Proof, trials: Sequence[Judged]) -> list[Judged]:
    """The trials that have the fault."""
    return [trial for trial in trials if proof.struck(trial)]


def missed(proof: Proof, trials: Sequence[Judged]) -> list[Judged]:
    """Those of them in which nobody noticed it."""
    return [trial for trial in struck(proof, trials) if proof.check not in trial.raised]


def told(trials: Sequence[Judged]) -> str:
    """A line each, whole: pytest cuts what it prints of a list."""
    return "\n".join(["", *map(str, trials)])
