"""Effects of testbeds, on runs whose true effects are known."""

from __future__ import annotations

from benchkit.comparison.testbed_effect import effects_of_testbeds, find_testbeds, ratio_effects
from benchkit.stats.samples import take_samples
from tests.support.comparison.testbeds import PAIR, run_of


def test_intervals_keep_their_level_over_all_testbeds() -> None:
    """Three equal testbeds, 400 runs: at most 8 % of runs show an effect at 5 % (5 % plus three standard errors)."""
    alarms = {"metric": 0, "ratio": 0}
    for seed in range(400):
        trials = run_of(testbeds="abc", seed=seed)
        samples, testbeds = take_samples(trials, "rps"), find_testbeds(trials)
        alarms["metric"] += any(effect.is_shown for effect in effects_of_testbeds(samples, testbeds))
        alarms["ratio"] += any(effect.is_shown for effect in ratio_effects(samples, [PAIR], testbeds))
    assert max(alarms.values()) <= 0.083 * 400, alarms
