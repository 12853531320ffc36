"""Rates achieved under a target rate."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.loadtools.measurement import Counters, Measurement, Sending
from benchkit.loadtools.tool import ParsedOutput, RateSupport
from benchkit.loadtools.trial_result import merge_generator_outputs, merge_slices, with_achieved_rate
from benchkit.models.histogram import Histogram
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult

OPEN = RateSupport(is_open=True, clocks="one")
PACED = RateSupport(is_open=False, clocks="per connection")
SECOND_US = 1_000_000


def histogram(times_us: list[int]) -> Histogram:
    values, counts = np.unique(np.array(times_us, np.int64), return_counts=True)
    return Histogram.from_microseconds(values, counts, digits=4)


def output(
    sending: Sending | None, times_us: list[int], rps: float = 77.0, lag: Histogram | None = None
) -> ParsedOutput:
    measurement = Measurement(
        tool="vegeta",
        histograms={"raw": histogram(times_us)},
        counters=Counters(requests=len(times_us), recorded=len(times_us)),
        resolution_s=1e-9,
        covers="connect+request",
        complete=True,
        latency_from="sent" if lag is None else "due",
        lag=lag,
        sending=sending,
    )
    return ParsedOutput(LoadResult(tool="vegeta", rps=rps, duration_s=1.0), measurement)


def achieved(parsed: ParsedOutput, support: RateSupport | None, **load: object) -> float | None:
    fields = {"tool": "vegeta", "connections": 8, "duration_s": 1, "rate": 1000, **load}
    rated = with_achieved_rate(parsed, Load.model_validate(fields), support).measurement
    assert rated is not None
    return rated.achieved_rate


@pytest.mark.parametrize("took_us", [200, 20_000])
def test_a_server_that_keeps_up_achieves_the_rate_however_long_it_takes(took_us: int) -> None:
    """Send 1,000 requests in a second; those of the last `took_us` are answered after the last one was sent."""
    sent_us = np.arange(1000) * 1000
    later = int(np.sum(sent_us + took_us > sent_us[-1]))
    sending = Sending(requests=1000, span_s=0.999, answered_later=later)
    assert achieved(output(sending, [took_us] * 1000), OPEN) == pytest.approx(1000, rel=0.002)


@pytest.mark.parametrize("capacity", [500, 900, 970])
def test_a_growing_backlog_is_the_servers_own_rate(capacity: int) -> None:
    """Serve requests one after the other, each in 1 / capacity seconds, while 1,000 a second arrive."""
    sent_us = np.arange(1000) * 1000
    ended_us = (np.arange(1000) + 1) * SECOND_US // capacity
    sending = Sending(requests=1000, span_s=0.999, answered_later=int(np.sum(ended_us > sent_us[-1])))
    rate = achieved(output(sending, (ended_us - sent_us).tolist()), OPEN)
    assert rate is not None
    assert rate == pytest.approx(capacity, rel=0.01)
    assert rate < 0.99 * 1000


def test_a_server_that_stalls_does_not_achieve_more_than_was_sent() -> None:
    """Answer nothing for 0.9 s, and then everything within 0.2 s."""
    sent_us = np.arange(1000) * 1000
    ended_us = np.maximum(sent_us + 200, 900_000 + 200 * np.arange(1000))
    sending = Sending(requests=1000, span_s=0.999, answered_later=int(np.sum(ended_us > sent_us[-1])))
    rate = achieved(output(sending, (ended_us - sent_us).tolist()), OPEN)
    assert rate is not None
    assert rate < 0.6 * 1000


def test_connections_that_send_together_cover_an_interval_less() -> None:
    """Send 4 rounds of 8 requests, 0.25 s apart: 32 in 0.75 s are 32 a second."""
    paced = output(Sending(requests=32, span_s=0.75, answered_later=8), [100] * 32)
    assert achieved(paced, PACED, rate=32) == pytest.approx(32)
    per_stream = RateSupport(is_open=False, clocks="per stream")
    assert achieved(paced, per_stream, rate=32, connections=1, streams=8) == pytest.approx(32)


@pytest.mark.parametrize(
    "sending",
    [None, Sending(requests=5, span_s=0.1), Sending(requests=1, span_s=0.0, answered_later=1)],
)
def test_without_instants_the_rate_is_the_tools_own(sending: Sending | None) -> None:
    assert achieved(output(sending, [100]), OPEN) == 77.0


def test_without_a_target_rate_none_is_achieved() -> None:
    full_speed = output(Sending(requests=9, span_s=1.0, answered_later=0), [100] * 9)
    assert achieved(full_speed, OPEN, rate=None) is None
    assert achieved(full_speed, None) is None


def test_rates_of_generators_add_up_and_lags_merge() -> None:
    """Two generators of 500 a second are one of 1,000; slices of one generator have the mean."""
    half = [
        with_achieved_rate(
            output(Sending(requests=501, span_s=1.0, answered_later=1), [100] * 501, lag=histogram([lag_us])),
            Load(tool="vegeta", connections=4, duration_s=1, rate=500),
            OPEN,
        )
        for lag_us in (10, 30)
    ]
    both = merge_generator_outputs(half, [0.0, 0.0]).measurement
    one = merge_slices(half).measurement
    assert both is not None
    assert one is not None
    assert both.achieved_rate == pytest.approx(1000, rel=1e-3)
    assert one.achieved_rate == pytest.approx(500, rel=1e-3)
    assert (both.latency_from, both.lag) == ("due", histogram([10, 30]))
