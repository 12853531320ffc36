"""Healthy trials are left alone. Only `make faults` asks for it: beside other tests no trial is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchkit.analysis.verdicts.checks.unstable import REFERENCE_BLOCKS
from tests.faults.faults import HEALTHY, Healthy
from tests.faults.outsiders import Quiet
from tests.faults.scores import Scores
from tests.faults.stage import Judged, Stage
from tests.faults.test_faults import MOST_WRONG, SETTLED, TRIALS, told

pytestmark = pytest.mark.lab

DISTURBED_CORES, STOLEN = 0.05, 0.015
"""A trial during which others took so much of the lab's cores, or a hypervisor so much of one, was not a healthy one."""
USUAL_SPEED = 0.08
"""Nor one during which a core was faster or slower than in most trials beside it, by so much. Rates go by that, Node's by its
power of 1.3, so that speeds alone make them vary by some 6 %, where `unstable` bears 10."""
TOGETHER = REFERENCE_BLOCKS
"""Fewer trials beside each other than these say little of how they vary."""
ROUNDS = 8
"""So often healthy trials are made again for those that others disturbed: on a busy machine there is no end to it."""

Stages = Callable[[str], Stage]


@pytest.mark.parametrize("healthy", HEALTHY, ids=lambda healthy: healthy.name)
def test_healthy_trials_are_left_alone(healthy: Healthy, stages: Stages, scores: Scores) -> None:
    """Trials during which others worked on the lab's cores, or slowed them, are set aside."""
    stage = stages("plain")
    wanted = math.ceil(TRIALS / len(HEALTHY))
    left, disturbed = undisturbed(healthy, stage, wanted)
    scores.healthy(left, disturbed)
    if TRIALS >= SETTLED:
        assert len(left) >= wanted, f"others disturbed {len(disturbed)} of the healthy trials"
    if not left:
        pytest.skip("others disturbed all healthy trials")
    if wanted < SETTLED and any(trial.raised for trial in left):
        left += undisturbed(healthy, stage, SETTLED - len(left))[0]
    alarmed = [trial for trial in left if trial.raised]
    assert len(alarmed) <= MOST_WRONG * len(left), told(alarmed)


def undisturbed(healthy: Healthy, stage: Stage, wanted: int) -> tuple[list[Judged], list[Judged]]:
    """So many trials that nobody disturbed, or more, or as many as there are after some rounds; and those that somebody did."""
    left: list[Judged] = []
    disturbed: list[Judged] = []
    for _ in range(ROUNDS):
        if len(left) < wanted:
            with Quiet(stage.lab) as quiet:
                judged = stage.run({**healthy.scenario, "blocks": wanted})
            kept = alike(quiet, [trial for trial in judged if is_left_alone(quiet, trial)])
            kept = kept if len(kept) >= min(TOGETHER, wanted) else []
            left += stage.beside_each_other(kept)
            disturbed += [trial for trial in judged if trial not in kept]
    return left, disturbed


def is_left_alone(quiet: Quiet, trial: Judged) -> bool:
    """Whether the lab had its cores to itself."""
    return quiet.foreign_cores(trial.window_s) <= DISTURBED_CORES and quiet.stolen_share(trial.window_s) <= STOLEN


def alike(quiet: Quiet, trials: Sequence[Judged]) -> list[Judged]:
    """Those in which every core was about as fast as in most of them."""
    if not trials:
        return []
    logs = np.log([quiet.speeds(trial.window_s) for trial in trials])
    usual = (np.abs(logs - np.median(logs, axis=0)) <= USUAL_SPEED).all(axis=1)
    return [trial for trial, is_usual in zip(trials, usual, strict=True) if is_usual]
