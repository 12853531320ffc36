"""Every fault is noticed, and healthy trials are left alone: proved on real trials, and counted for the README."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.faults.faults import FAULTS, HEALTHY, Fault, Healthy, Proof
from tests.faults.outsiders import Quiet
from tests.faults.scores import Scores
from tests.faults.stage import Judged, Stage, staged

pytestmark = pytest.mark.lab

TRIALS = int(os.environ.get("BENCHKIT_FAULT_TRIALS", "3"))
"""With each fault, and without any; `make faults` asks for more."""
CAP_BPS = 20e6
"""Below what any of our servers sends on a core."""
DISTURBED_CORES = 0.08
"""A trial during which others took so much of the lab's cores was not a healthy one."""
SLOW_SHARE = 0.2
"""Nor was one that had a core slow for so much of its window: a fifth at two thirds of its speed is 7 %."""
MOST_WRONG = 0.05
"""Of the trials with a fault as many may be missed, and of the healthy ones as many raise an alarm."""
SETTLED = round(1 / MOST_WRONG)
"""With fewer trials a single one is more than that: where one of them is wrong, it takes so many to tell."""
ROUNDS = 4
"""So often healthy trials are made again for those that others disturbed: on a busy machine there is no end to it."""
Stages = Callable[[str], Stage]


@pytest.fixture(scope="module")
def stages(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """Labs by name, each made when it is first asked for."""
    shapes = {
        "capped": LabSpec(hosts=tuple(LabHost(name=n, roles=(n,), link_bps=CAP_BPS) for n in ("sut", "load"))),
        "shared": LabSpec(shared=True),
    }
    made: dict[str, Stage] = {}
    with ExitStack() as stack:

        def stage(name: str) -> Stage:
            if name not in made:
                own = lab
                if name in shapes:
                    own = up(shapes[name].model_copy(update={"name": f"pytest-{os.getpid()}-{name}"}))
                    stack.callback(down, own.name)
                made[name] = stack.enter_context(staged(own, tmp_path_factory.mktemp(name)))
            return made[name]

        yield stage


@pytest.fixture(scope="module")
def scores() -> Iterator[Scores]:
    """What came of all trials, printed at the end."""
    counted = Scores()
    yield counted
    print(counted.markdown())  # noqa: T201 - what `make faults` is for


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
        assert len(missed(proof, trials)) <= MOST_WRONG * len(struck(proof, trials)), missed(proof, trials)


def struck(proof: Proof, trials: Sequence[Judged]) -> list[Judged]:
    """The trials that have the fault."""
    return [trial for trial in trials if proof.struck(trial)]


def missed(proof: Proof, trials: Sequence[Judged]) -> list[Judged]:
    """Those of them in which nobody noticed it."""
    return [trial for trial in struck(proof, trials) if proof.check not in trial.raised]


@pytest.mark.parametrize("healthy", HEALTHY, ids=lambda healthy: healthy.name)
def test_healthy_trials_are_left_alone(healthy: Healthy, stages: Stages, scores: Scores) -> None:
    """Trials during which others worked on the lab's cores are set aside: by other counters than the checks read."""
    stage = stages("plain")
    wanted = math.ceil(TRIALS / len(HEALTHY))
    left, disturbed = undisturbed(healthy, stage, wanted)
    scores.healthy(left, disturbed)
    if TRIALS >= SETTLED:
        assert len(left) >= wanted, f"others worked on the lab's cores during {len(disturbed)} of the healthy trials"
    if not left:
        pytest.skip("others worked on the lab's cores during all healthy trials")
    if wanted < SETTLED and any(trial.raised for trial in left):
        left += undisturbed(healthy, stage, SETTLED - len(left))[0]
    alarmed = [trial for trial in left if trial.raised]
    assert len(alarmed) <= MOST_WRONG * len(left), alarmed


def undisturbed(healthy: Healthy, stage: Stage, wanted: int) -> tuple[list[Judged], list[Judged]]:
    """So many trials that nobody disturbed, or as many as there are after some rounds; and those that somebody did."""
    left: list[Judged] = []
    disturbed: list[Judged] = []
    for _ in range(ROUNDS):
        if len(left) < wanted:
            with Quiet(stage.lab) as quiet:
                judged = stage.run({**healthy.scenario, "blocks": wanted - len(left)})
            kept = [trial for trial in judged if not was_disturbed(trial, quiet)]
            left += stage.beside_each_other(kept)
            disturbed += [trial for trial in judged if trial not in kept]
    return left, disturbed


def was_disturbed(trial: Judged, quiet: Quiet) -> bool:
    """Whether others took of the lab's cores in its window, or made them slow."""
    return quiet.foreign_cores(trial.window_s) > DISTURBED_CORES or quiet.slow_share(trial.window_s) > SLOW_SHARE
