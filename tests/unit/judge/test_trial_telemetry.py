"""Tests of telemetry series: built from rows in any order, with values over the measured window."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.judge.evidence import MetricSeries, TrialTelemetry
from tests.support.judge.builders import WINDOW_S, telemetry_columns


def test_series_are_found_by_host_service_and_instance() -> None:
    watched = TrialTelemetry(
        telemetry_columns(
            {
                ("m", "sut", None, "0"): {0.0: 1},
                ("m", "sut", "app", "1"): {0.0: 2},
                ("m", "load", None, "0"): {0.0: 3},
                ("other", "sut", None, "0"): {0.0: 4},
            }
        )
    )
    assert [each.values for each in watched.series("m")] == [[1.0], [2.0], [3.0]]
    assert [each.values for each in watched.series("m", "sut")] == [[1.0], [2.0]]
    assert [each.values for each in watched.series("m", "sut", "app")] == [[2.0]]
    assert [each.values for each in watched.series("m", service="app")] == [[2.0]]
    assert list(watched.series("m", "elsewhere")) == list(watched.series("nothing")) == []
    load = watched.instance("m", "load", "0")
    assert load is not None
    assert load.values == [3.0]
    assert watched.instance("m", "load", "1") is None


@pytest.mark.parametrize("seed", range(5))
def test_counters_grow_linearly_between_their_samples(seed: int) -> None:
    random = np.random.default_rng(seed)
    t_s, values = np.sort(random.uniform(-2, 5, 20)), np.cumsum(random.uniform(0, 9, 20))
    series = MetricSeries("sut", None, None, t_s.tolist(), values.tolist())
    counted = series.increase(WINDOW_S)
    assert counted is not None
    snapped = series.aligned_times(WINDOW_S)
    start, end = np.interp([max(0.0, snapped[0]), min(WINDOW_S, snapped[-1])], snapped, values)
    assert counted.increase == pytest.approx(end - start, rel=1e-12)
