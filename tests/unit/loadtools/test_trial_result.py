"""Outputs of generators, read and merged."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.measurement import Counters, Measurement, RequestSpan
from benchkit.loadtools.tool import ParsedOutput, RateSupport, ToolOutput
from benchkit.loadtools.tools.hey import MAX_RESULTS, measure
from benchkit.loadtools.trial_result import merge_generator_outputs, merge_slices, with_achieved_rate
from benchkit.models.histogram import Histogram
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.models.protocol import Negotiated
from tests.support.loadtools.reductions import document


def _histogram(values: dict[int, int]) -> Histogram:
    return Histogram.from_microseconds(np.array(list(values)), np.array(list(values.values())), digits=4)


def _output(requests: int, duration_s: float, times: dict[int, int] | None, **fields: Any) -> ParsedOutput:  # noqa: ANN401
    measurement = None
    if times is not None:
        measurement = Measurement(
            tool="hey",
            histograms={"raw": _histogram(times)},
            counters=Counters(requests=requests, recorded=sum(times.values())),
            resolution_s=1e-9,
            covers="connect+request",
            complete=True,
        )
    result = LoadResult(
        tool="hey",
        duration_s=duration_s,
        requests=requests,
        rps=requests / duration_s,
        bytes_total=12.0 * requests,
        **{"latency": Latency() if measurement is None else measurement.latency(), **fields},
    )
    return ParsedOutput(result, measurement)


def test_merged_generators_and_slices_negotiated_what_all_of_them_did() -> None:
    new, old = (Negotiated(protocol="h2", tls_version=version) for version in ("1.3", "1.2"))
    for second, common in ((new, new), (old, None), (None, None)):
        both = [_output(1, 1.0, None, negotiated=each) for each in (new, second)]
        assert merge_generator_outputs(both, [0.0, 0.0]).result.negotiated == common
        assert merge_slices(both).result.negotiated == common


def test_slices_add_up_to_the_output_of_one_window() -> None:
    slices = [
        _output(
            300,
            0.3,
            {1000: 300},
            errors=Errors(timeout=1),
            notes=(Note(code="odd", message="once"),),
            connect_mean_s=1e-3,
        ),
        _output(100, 0.1, {9000: 100}, errors=Errors(timeout=0), connect_mean_s=2e-3),
        _output(100, 0.4, {2000: 100}, errors=Errors(timeout=2), status={"200": 100}, connect_mean_s=6e-3),
    ]
    merged = merge_slices(slices)
    result, measured = merged.result, merged.measurement
    assert (result.requests, result.bytes_total) == (500, 6000)
    assert result.duration_s == pytest.approx(0.8)
    assert result.connect_mean_s == pytest.approx((300 * 1e-3 + 100 * 2e-3 + 100 * 6e-3) / 500)
    assert result.first_byte_mean_s is None
    assert result.rps == pytest.approx(500 / 0.8)
    assert (result.errors.timeout, result.status) == (3, {"200": 100})
    assert measured is not None
    assert measured.histograms["raw"].total == 500
    assert result.latency.percentiles["99"] == pytest.approx(0.009, rel=1e-3)
    assert result.notes == (Note(code="odd", message="slice 1 of 3: once"),)
    assert merge_slices(slices[:1]) is slices[0]


def test_a_rate_that_a_slice_lacks_is_unknown_and_percentiles_need_histograms() -> None:
    summary = Latency(min_s=0.001, mean_s=0.002, max_s=0.003, percentiles={"50": 0.002})
    one = _output(100, 0.2, None, latency=summary)
    broken = ParsedOutput(one.result.model_copy(update={"rps": None, "bytes_per_s": None}), None)
    merged = merge_slices([one, broken]).result
    assert (merged.rps, merged.requests) == (None, 200)
    assert merged.latency.mean_s == pytest.approx(0.002)
    assert merged.latency.percentiles == {}
    assert [note.code for note in merged.notes] == ["percentiles-lost"]


def test_counts_and_rates_add_up_and_histograms_merge() -> None:
    one = _output(1000, 2.0, {1000: 900, 9000: 100}, errors=Errors(connect=1, timeout=0), status={"200": 999, "503": 1})
    two = _output(600, 1.9, {2000: 600}, errors=Errors(connect=2, timeout=None), status={"200": 600})
    merged = merge_generator_outputs([one, two], [0.0, 0.05])
    result, measured = merged.result, merged.measurement
    assert (result.requests, result.bytes_total) == (1600, 19200)
    assert result.rps == pytest.approx(1000 / 2.0 + 600 / 1.9)
    assert result.duration_s == pytest.approx(1.95 - 0.05)  # from the last start to the first end
    assert result.errors == Errors(connect=3)
    assert result.status == {"200": 1599, "503": 1}
    assert measured is not None
    assert measured.histograms["raw"] == _histogram({1000: 900, 2000: 600, 9000: 100})
    assert result.latency == measured.latency()
    assert result.latency.percentiles["50"] == 0.001
    assert result.latency.percentiles["90"] == 0.002  # which no mean of 0.001 and 0.002 gives
    assert result.latency.corrected is False


def test_generators_with_different_ends_are_noted_and_do_not_lower_the_rate() -> None:
    """Check eight runs of hey of 35.9 to 43.0 s: their total rate is above their total count ÷ 43.0 s."""
    seconds = [35.9, 36.5, 37.0, 38.0, 39.0, 40.0, 41.5, 43.0]
    merged = merge_generator_outputs([_output(1_000_000, s, {1000: 1}) for s in seconds], [0.0] * 8).result
    assert merged.rps == pytest.approx(sum(1_000_000 / s for s in seconds))
    assert sum(1_000_000 / s for s in seconds) > 8_000_000 / 43.0
    assert merged.duration_s == 35.9
    assert [note.code for note in merged.notes] == ["ended-apart"]
    assert "7.10 s apart" in merged.notes[0].message


def test_each_note_is_stated_once_with_its_generator() -> None:
    same, own, like = (
        Note(code="a", message="of all"),
        Note(code="b", message="1 seen"),
        Note(code="b", message="2 seen"),
    )
    merged = merge_generator_outputs(
        [
            _output(10, 1.0, {1: 10}, notes=(same, own)),
            _output(10, 1.0, {1: 10}, notes=(same, like)),
            _output(10, 1.0, {1: 10}, notes=(same,)),
        ],
        [0.0] * 3,
    ).result
    assert [(note.code, note.message) for note in merged.notes] == [
        ("a", "of all"),
        ("b", "generator 1 of 3: 1 seen; similar for 1 others"),
    ]


def _counters_text(requests: int, errors: dict[str, int], *, time_s: float = 1.5) -> str:
    hexed = json.dumps(errors).encode().hex()
    return (
        f"--- benchkit counters of hey 1\nrequests {requests}\nduration_ns 2500000000\nbytes 1200\n"
        f"time_s {time_s:.9f}\nerrors {hexed}\n--- end of benchkit counters of hey\n\n"
    )


def _reducer_file(rows: int) -> bytes:
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # noqa: PLC0415 - the library has no types

    histogram = HdrHistogram(1, 3_600_000_000, 4)
    histogram.record_value(1000, rows)
    latency = {
        "histogram_us": histogram.encode().decode(),
        "min_ns": 1_000_000,
        "max_ns": 1_000_000,
        "sum_ns": rows * 1_000_000,
    }
    whole = document(rows=rows, resolution_ns=1, latency=latency, status={"200": rows}, span=None, seconds=None)
    return json.dumps(whole).encode()


def test_hey_counts_failures_that_its_rows_do_not_have() -> None:
    failures = {'Get "http://x/%2F": dial tcp 10.0.0.2:8080: connect: connection refused': 3, "timeout awaiting": 1}
    found = measure(ToolOutput(_counters_text(104, failures), reduction=_reducer_file(100)))
    assert (found.result.requests, found.result.failed, found.result.duration_s) == (104, 4, 2.5)
    assert (found.result.errors.connect, found.result.errors.timeout) == (3, 1)
    assert found.result.rps == pytest.approx(41.6)
    assert found.result.latency.mean_s == pytest.approx(0.001)
    assert found.result.latency.resolution_s == 1e-9
    assert "hey-errors" in [note.code for note in found.result.notes]


def test_hey_knows_no_bytes_of_answers_without_a_length() -> None:
    stated = _counters_text(100, {})
    for text, expected in ((stated, 1200), (stated.replace("bytes 1200", "bytes 0"), None)):
        assert measure(ToolOutput(text, reduction=_reducer_file(100))).result.bytes_total == expected


def test_hey_beyond_a_million_answers_has_exact_counts_and_mean() -> None:
    found = measure(
        ToolOutput(_counters_text(3_000_001, {"EOF": 1}, time_s=6000.0), reduction=_reducer_file(MAX_RESULTS))
    )
    assert found.result.requests == 3_000_001
    assert found.result.rps == pytest.approx(3_000_001 / 2.5)
    assert found.result.latency.mean_s == pytest.approx(0.002)  # of all answers; 0.001 is of the first million
    assert found.result.latency.percentiles["99.9"] == 0.001
    assert found.result.non_2xx is None
    assert [note.code for note in found.result.notes] == ["hey-cap", "hey-errors"]
    assert found.measurement is not None
    assert not found.measurement.complete


@pytest.mark.parametrize(
    ("text", "rows", "message"),
    [
        ("", 100, "did not print all its counters"),
        (_counters_text(100, {})[:-60], 100, "did not print all its counters"),
        (_counters_text(100, {}) + _counters_text(100, {}), 100, "did not print all its counters"),
        (_counters_text(100, {}), 99, "99 rows of hey, but 100 answers"),
        (_counters_text(100, {}).replace("errors 7b7d", "errors 7b"), 100, "cannot be read"),
    ],
)
def test_counters_that_contradict_the_rows_are_refused(text: str, rows: int, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        measure(ToolOutput(text, reduction=_reducer_file(rows)))


OPEN = RateSupport(is_open=True, clocks="one")
PACED = RateSupport(is_open=False, clocks="per connection")
SECOND_US = 1_000_000


def histogram(times_us: list[int]) -> Histogram:
    return _histogram(dict(sorted(Counter(times_us).items())))


def span(seconds: float, answered_later: int) -> RequestSpan:
    last_ns = round(seconds * 1e9)
    return RequestSpan(
        origin="run", first_start_ns=0, last_start_ns=last_ns, last_end_ns=last_ns, ended_later=answered_later
    )


def output(
    sent: RequestSpan | None, times_us: list[int], rps: float = 77.0, lag: Histogram | None = None
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
        span=sent,
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
    sent = span(0.999, later)
    assert achieved(output(sent, [took_us] * 1000), OPEN) == pytest.approx(1000, rel=0.002)


@pytest.mark.parametrize("capacity", [500, 900, 970])
def test_a_growing_backlog_is_the_servers_own_rate(capacity: int) -> None:
    """Serve requests one after the other, each in 1 / capacity seconds, while 1,000 a second arrive."""
    sent_us = np.arange(1000) * 1000
    ended_us = (np.arange(1000) + 1) * SECOND_US // capacity
    sent = span(0.999, int(np.sum(ended_us > sent_us[-1])))
    rate = achieved(output(sent, (ended_us - sent_us).tolist()), OPEN)
    assert rate is not None
    assert rate == pytest.approx(capacity, rel=0.01)
    assert rate < 0.99 * 1000


def test_connections_that_send_together_cover_an_interval_less() -> None:
    """Send 4 rounds of 8 requests, 0.25 s apart: 32 in 0.75 s are 32 a second."""
    paced = output(span(0.75, 8), [100] * 32)
    assert achieved(paced, PACED, rate=32) == pytest.approx(32)
    per_stream = RateSupport(is_open=False, clocks="per stream")
    assert achieved(paced, per_stream, rate=32, connections=1, streams=8) == pytest.approx(32)


@pytest.mark.parametrize(
    "sent",
    [None, span(0.0, 1)],
)
def test_without_instants_the_rate_is_the_tools_own(sent: RequestSpan | None) -> None:
    assert achieved(output(sent, [100]), OPEN) == 77.0


def test_rates_of_generators_add_up_and_lags_merge() -> None:
    """Two generators of 500 a second are one of 1,000; slices of one generator have the mean."""
    half = [
        with_achieved_rate(
            output(span(1.0, 1), [100] * 501, lag=histogram([lag_us])),
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
