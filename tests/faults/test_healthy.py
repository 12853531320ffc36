"""Healthy trials are left alone. Only `make faults` asks for it: beside other tests no trial is one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.faults.faults import HEALTHY, Healthy
from tests.faults.outsiders import Quiet
from tests.faults.scores import Scores
from tests.faults.stage import Judged, Stage
from tests.faults.test_faults import MOST_WRONG, SETTLED, TRIALS, told

pytestmark = pytest.mark.lab

DISTURBED_CORES = 0.05
"""A trial during which others took so much of the lab's cores was not a healthy one."""
SLOWED_SHARE = 0.5
"""And one on a core that was slowed, to six tenths of its speed, for more of its window than this: rates go by that."""
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
    """So many trials that nobody disturbed, or as many as there are after some rounds; and those that somebody did."""
    left: list[Judged] = []
    disturbed: list[Judged] = []
    for _ in range(ROUNDS):
        if len(left) < wanted:
            with Quiet(stage.lab) as quiet:
                judged = stage.run({**healthy.scenario, "blocks": wanted - len(left)})
            kept = [trial for trial in judged if is_undisturbed(quiet, trial)]
            left += stage.beside_each_other(kept)
            disturbed += [trial for trial in judged if trial not in kept]
    return left, disturbed


def is_undisturbed(quiet: Quiet, trial: Judged) -> bool:
    """Whether the lab had its cores to itself, at their speed."""
    return quiet.foreign_cores(trial.window_s) <= DISTURBED_CORES and quiet.slowed_share(trial.window_s) <= SLOWED_SHARE
