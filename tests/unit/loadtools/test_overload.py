"""Figures of a window with a shape, from its seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchkit.loadtools.measurement import Counters, Measurement, Overload, Second, overload_of
from benchkit.models.histogram import Histogram
from benchkit.models.load import Load

LOAD = Load.model_validate(
    {
        "tool": "openloop",
        "connections": 8,
        "duration_s": 7,
        "rate": 100,
        "shape": {"form": "step", "start_s": 1, "length_s": 2},
        "capacity": {"slo": {"p99_s": 0.01, "error_share": 0.1}},
    }
)


def second(latency_s: float | None, ended: int = 100, errors: int = 0) -> Second:
    if latency_s is None:
        return Second(started=ended, ended=0, errors=0, latency=None)
    histogram = Histogram.from_microseconds(np.array([round(latency_s * 1e6)]), np.array([ended]), digits=2)
    return Second(started=ended, ended=ended, errors=errors, latency=histogram)


def measured(seconds: Sequence[Second]) -> Measurement:
    counters = Counters(requests=100, recorded=100)
    return Measurement("openloop", {}, counters, 1e-9, "connect+request", complete=True, seconds=tuple(seconds))


FAST, SLOW = 0.002, 0.5
DURING = [second(FAST), second(SLOW, 90, 10), second(SLOW, 110, 20)]


@pytest.mark.parametrize(
    ("after", "recovery_s"),
    [
        ([FAST, FAST, FAST, FAST], 1),
        ([SLOW, SLOW, FAST, FAST], 3),
        ([FAST, SLOW, FAST, FAST], 3),
        ([SLOW, None, FAST, FAST], 3),
        ([FAST, FAST, FAST, SLOW], None),
        ([SLOW, SLOW, FAST, FAST, SLOW], 3),  # after the window only what was in flight ends
        ([], None),
    ],
)
def test_the_objective_holds_again_after_its_last_miss(after: list[float | None], recovery_s: float | None) -> None:
    found = overload_of(LOAD, measured([*DURING, *map(second, after)]))
    assert found == Overload(goodput_rps=85, error_share=0.15, recovery_s=recovery_s)


def test_errors_miss_the_objective_too() -> None:
    found = overload_of(LOAD, measured([*DURING, second(FAST, 100, 11), second(FAST, 100, 10)]))
    assert found is not None
    assert found.recovery_s == 2


def test_only_shaped_loads_have_the_figures() -> None:
    seconds = measured([*DURING, second(FAST)])
    assert overload_of(LOAD.model_copy(update={"shape": None}), seconds) is None
    assert overload_of(LOAD, None) is None
    assert overload_of(LOAD, measured([])) is None
    without_objective = overload_of(LOAD.model_copy(update={"capacity": None}), seconds)
    assert without_objective == Overload(goodput_rps=85, error_share=0.15)
