"""Healthy trials raise no alarm. Only `make faults` runs this: other tests on the same machine disturb trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchkit.judge.checks.between_trials import REFERENCE_BLOCKS
from tests.faults.conftest import FaultLabs
from tests.faults.disturbances import DisturbanceMonitor
from tests.faults.fault_lab import FaultLab, JudgedTrial
from tests.faults.faults import HEALTHY, Healthy
from tests.faults.scores import Scores
from tests.faults.test_faults import MAX_ERROR_RATE, MIN_DECISIVE_TRIALS, TRIALS, listing

DISTURBED_CORES, STOLEN = 0.05, 0.015
"""Cores used by others, and share stolen from a core, above which a trial was disturbed."""
USUAL_SPEED = 0.08
"""Deviation of a core's speed from its median over the run above which a trial was disturbed. Rates follow core speed
(Node's by a power of 1.3), so that speeds alone make them vary by some 6 %; `unstable` tolerates 10 %.
"""
MIN_COMPARABLE_TRIALS = REFERENCE_BLOCKS
"""Trials of a cell needed to compare their spread."""
ROUNDS = 8
"""Repetitions of healthy trials to replace disturbed ones; on a busy machine there would be no end."""


@pytest.mark.parametrize("healthy", HEALTHY, ids=lambda healthy: healthy.name)
def test_healthy_trials_have_no_findings(healthy: Healthy, fault_labs: FaultLabs, scores: Scores) -> None:
    """Exclude trials during which other processes used or slowed the lab's cores."""
    fault_lab = fault_labs("plain")
    wanted = math.ceil(TRIALS / len(HEALTHY))
    undisturbed, disturbed = collect_undisturbed(healthy, fault_lab, wanted)
    scores.healthy(undisturbed, disturbed)
    if TRIALS >= MIN_DECISIVE_TRIALS:
        assert len(undisturbed) >= wanted, f"others disturbed {len(disturbed)} of the healthy trials"
    if not undisturbed:
        pytest.skip("others disturbed all healthy trials")
    if wanted < MIN_DECISIVE_TRIALS and any(trial.findings for trial in undisturbed):
        undisturbed += collect_undisturbed(healthy, fault_lab, MIN_DECISIVE_TRIALS - len(undisturbed))[0]
    alarmed = [trial for trial in undisturbed if trial.findings]
    assert len(alarmed) <= MAX_ERROR_RATE * len(undisturbed), listing(alarmed)


def collect_undisturbed(
    healthy: Healthy, fault_lab: FaultLab, wanted: int
) -> tuple[list[JudgedTrial], list[JudgedTrial]]:
    """Return at least this many undisturbed trials, or all that the rounds have, and the disturbed ones."""
    undisturbed: list[JudgedTrial] = []
    disturbed: list[JudgedTrial] = []
    for _ in range(ROUNDS):
        if len(undisturbed) < wanted:
            with DisturbanceMonitor(fault_lab.lab) as quiet:
                judged = fault_lab.run({**healthy.scenario, "blocks": wanted})
            kept = [trial for trial in judged if is_undisturbed(quiet, trial)]
            if healthy.follows_speed:
                kept = at_usual_speed(quiet, kept)
            kept = kept if len(kept) >= min(MIN_COMPARABLE_TRIALS, wanted) else []
            undisturbed += fault_lab.judge_together(kept)
            disturbed += [trial for trial in judged if trial not in kept]
    return undisturbed, disturbed


def is_undisturbed(quiet: DisturbanceMonitor, trial: JudgedTrial) -> bool:
    """Return True if the lab had its cores to itself."""
    return quiet.foreign_cores(trial.window_s) <= DISTURBED_CORES and quiet.stolen_share(trial.window_s) <= STOLEN


def at_usual_speed(quiet: DisturbanceMonitor, trials: Sequence[JudgedTrial]) -> list[JudgedTrial]:
    """Return the trials in which every core had its usual speed."""
    if not trials:
        return []
    logs = np.log([quiet.speeds(trial.window_s) for trial in trials])
    usual = (np.abs(logs - np.median(logs, axis=0)) <= USUAL_SPEED).all(axis=1)
    return [trial for trial, is_usual in zip(trials, usual, strict=True) if is_usual]
