"""Measurements of several generators, merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchkit.errors import InputError
from benchkit.loadtools.measurement import Counters, Measurement, Overload, Second, overload_of
from benchkit.loadtools.text import errors_of
from benchkit.loadtools.tools import wrk
from benchkit.loadtools.tools.wrk_histogram import measurement
from benchkit.loadtools.trial_result import merge_measurements
from benchkit.models.histogram import Histogram
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Note
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "histograms"


def measured(*times_us: int, tool: str = "hey", **counters: object) -> Measurement:
    values, counts = np.unique(np.array(times_us, np.int64), return_counts=True)
    counted = {"requests": len(times_us), "recorded": len(times_us), **counters}
    return Measurement(
        tool=tool,
        histograms={"raw": Histogram.from_microseconds(values, counts, digits=4)} if times_us else {},
        counters=Counters.model_validate(counted),
        resolution_s=1e-4,
        covers="connect+request",
        complete=True,
        duration_s=1.5,
        notes=(Note(code="hey-csv", message="a row is an answer"),),
    )


def test_counts_add_up_and_histograms_merge() -> None:
    one = measured(100, 200, status={"200": 1, "503": 1}, non_2xx=1, bytes_total=10, errors=Errors(connect=1, read=2))
    other = measured(200, 300, 300, status={"200": 3}, non_2xx=0, bytes_total=5, errors=Errors(connect=4))
    both = merge_measurements([one, other])
    assert both.histograms == measured(100, 200, 200, 300, 300).histograms
    assert both.counters == Counters(
        requests=5, recorded=5, bytes_total=15, status={"200": 4, "503": 1}, non_2xx=1, errors=Errors(connect=5)
    )
    assert both.latency().percentiles == {"50": 200e-6, "75": 300e-6}
    assert both.complete
    assert both.duration_s is None
    assert [note.code for note in both.notes] == ["hey-csv"]


def test_a_count_that_one_generator_lacks_is_none() -> None:
    both = merge_measurements([measured(100, bytes_total=10), measured(100)])
    assert both.counters.bytes_total is None
    assert both.counters.requests == 2
    assert both.counters.recorded == 2


def test_generators_of_different_tools_are_not_merged() -> None:
    with pytest.raises(InputError, match="ab, hey"):
        merge_measurements([measured(100), measured(100, tool="ab")])
    with pytest.raises(InputError, match="no generator"):
        merge_measurements([])
    both_series = Measurement(
        **{**vars(measured(100)), "histograms": {**measured(1).histograms, "corrected": measured(1).histograms["raw"]}}
    )
    with pytest.raises(InputError, match="some are corrected and others are not"):
        merge_measurements([measured(100), both_series])


def test_each_wrk_is_corrected_back_by_its_own_interval() -> None:
    parts = [
        measurement(text := (FIXTURES / f"wrk-v410-{name}.txt").read_text(), wrk.parse(text))
        for name in ("keepalive", "close", "late-answers")
    ]
    whole = merge_measurements(parts)
    for series in ("raw", "corrected"):
        assert whole.histograms[series].total == sum(part.histograms[series].total for part in parts if part.histograms)
    assert whole.counters.recorded == whole.histograms["raw"].total
    assert whole.counters.requests == sum(part.counters.requests for part in parts)
    assert whole.counters.errors.timeout == 8


def test_gos_error_messages_are_counted_by_kind() -> None:
    found = errors_of(
        {
            'Get "http://h/": dial tcp 0.0.0.0:0->127.0.0.1:1: connect: connection refused': 1,
            'Get "http://h/": dial tcp: lookup h: no such host': 2,
            'Get "http://h/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)': 4,
            "read tcp 127.0.0.1:*->127.0.0.1:80: read: connection reset by peer": 8,
            'Get "http://h/": EOF': 16,
            "write tcp 127.0.0.1:*->127.0.0.1:80: write: broken pipe": 32,
            "an unknown message": 64,
        },
        others=128,
    )
    assert found == Errors(connect=3, timeout=4, read=24, write=32, other=192)


LOAD = Load.model_validate(
    {
        "tool": "openloop",
        "connections": 8,
        "duration_s": 7,
        "rate": 100,
        "shape": {"start_s": 1, "length_s": 2},
        "capacity": {"slo": {"p99_s": 0.01, "error_share": 0.1}},
    }
)


def second(latency_s: float | None, ended: int = 100, errors: int = 0) -> Second:
    if latency_s is None:
        return Second(started=ended, ended=0, errors=0, latency=None)
    histogram = Histogram.from_microseconds(np.array([round(latency_s * 1e6)]), np.array([ended]), digits=2)
    return Second(started=ended, ended=ended, errors=errors, latency=histogram)


def measured_by_second(seconds: Sequence[Second]) -> Measurement:
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
    found = overload_of(LOAD, measured_by_second([*DURING, *map(second, after)]))
    assert found == Overload(goodput_rps=85, error_share=0.15, recovery_s=recovery_s)


def test_errors_miss_the_objective_too() -> None:
    found = overload_of(LOAD, measured_by_second([*DURING, second(FAST, 100, 11), second(FAST, 100, 10)]))
    assert found is not None
    assert found.recovery_s == 2


def test_only_shaped_loads_have_the_figures() -> None:
    seconds = measured_by_second([*DURING, second(FAST)])
    assert overload_of(LOAD.model_copy(update={"shape": None}), seconds) is None
    assert overload_of(LOAD, None) is None
    assert overload_of(LOAD, measured_by_second([])) is None
    without_objective = overload_of(LOAD.model_copy(update={"capacity": None}), seconds)
    assert without_objective == Overload(goodput_rps=85, error_share=0.15)
