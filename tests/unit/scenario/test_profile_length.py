"""Length of the profile pass of `versus --why`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchkit.scenario.trial_order import PROFILE_BLOCKS, PROFILE_HZ, SHORTEST_PROFILE_S, ServerCost, profile_length

FAST, SLOW = ServerCost(20e-6, 0.5), ServerCost(30e-6, 0.5)


def test_a_tenth_of_the_difference_gets_an_interval_of_a_third_of_itself() -> None:
    needed_s = profile_length([FAST, SLOW], 1e6).needed_s
    rng = np.random.default_rng(1)
    tenth = (SLOW.cpu_s - FAST.cpu_s) / 10
    estimates = []
    for each, part in ((FAST, FAST.cpu_s / 10), (SLOW, FAST.cpu_s / 10 + tenth)):
        samples = PROFILE_HZ * each.cores * needed_s * PROFILE_BLOCKS
        counts = rng.poisson(samples * part / each.cpu_s, size=20_000)
        estimates.append(counts * each.cpu_s / samples)
    reach = 2 * float(np.std(estimates[1] - estimates[0]))
    assert reach == pytest.approx(tenth / 3, rel=0.2)


def test_a_small_difference_needs_more_than_there_is_time_for() -> None:
    length = profile_length([FAST, ServerCost(20.2e-6, 0.5)], 60)
    assert (length.is_enough, length.duration_s) == (False, 4.0)
    assert length.needed_s > 1000
    assert length.fields == {"blocks": PROFILE_BLOCKS, "duration_s": 4.0, "frequency_hz": PROFILE_HZ}


def test_equal_costs_and_one_server_get_a_pass() -> None:
    assert profile_length([FAST, FAST], 1).duration_s == SHORTEST_PROFILE_S
    assert math.isinf(profile_length([FAST, FAST], 1).needed_s)
    assert profile_length([FAST], 60).is_enough
