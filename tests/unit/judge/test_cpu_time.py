"""Tests of the core speed of a trial."""

from __future__ import annotations

import pytest

from benchkit.judge.cpu_time import server_loop_s
from tests.support.judge.builders import WINDOW_S, Telemetry, build_trial


@pytest.mark.parametrize(
    ("core", "samples", "expected"),
    [
        (0, {-0.1: 9.0, 0.0: 1.0, 0.5: 1.0, WINDOW_S: 2.0, 3.1: 9.0}, 6 / 5),  # twice full speed, once half
        (0, {0.0: 1.0, 0.1: 0.0, 0.2: 1.0, 0.3: 1.0}, 1.0),  # zero is an error of the clock
        (0, {0.0: 1.0, 0.1: 1.0}, None),
        (5, {0.0: 1.0, 0.1: 1.0, 0.2: 1.0}, None),  # not a core of the server
    ],
)
def test_core_speed_is_the_mean_over_the_window(core: int, samples: dict[float, float], expected: float | None) -> None:
    times: Telemetry = {("cpu_loop_s", "sut", None, str(core)): samples}
    assert server_loop_s(build_trial(times)) == (None if expected is None else pytest.approx(expected))
