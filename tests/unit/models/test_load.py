"""Target rates that change within a trial, as stages."""

from __future__ import annotations

import pytest

from benchkit.models.load import NS_PER_S, Load, RateStage, Shape

RATE = 1000.0


def rates_by_second(stages: tuple[RateStage, ...]) -> list[int]:
    """Return the number of requests due in each second."""
    due: list[int] = []
    began_ns = 0
    for stage in stages:
        due += [began_ns + number * stage.interval_ns for number in range(stage.requests)]
        began_ns += stage.requests * stage.interval_ns
    assert due == sorted(due)
    seconds = [at // NS_PER_S for at in due]
    return [seconds.count(second) for second in range(max(seconds) + 1)]


def test_each_second_has_its_share_of_the_target_rate() -> None:
    shape, expected = Shape(base=0.2, start_s=1, length_s=4), [200, 1000, 1000, 1000, 1000, 200]
    stages = shape.stages(RATE, 6)
    assert rates_by_second(stages) == pytest.approx(expected, abs=2)
    assert sum(stage.requests for stage in stages) == sum(expected)
    load = Load(tool="vegeta", connections=1, duration_s=6, rate=RATE, shape=shape)
    assert load.stages == stages
    assert load.mean_rate == sum(expected) / 6
