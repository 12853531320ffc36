"""Removal of wrk's added samples, compared with adding them, with recorded outputs, and with the real wrk."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.loadtools.measurement import Measurement
from benchkit.loadtools.tools import wrk
from benchkit.loadtools.tools.wrk import HISTOGRAM
from benchkit.loadtools.tools.wrk_histogram import expected_interval_us, measurement, without_additions
from benchkit.models.histogram import Histogram
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "histograms"
RECORDED = sorted(FIXTURES.glob("wrk-*.txt"))

intervals = st.integers(1, 60)
raws = st.dictionaries(st.integers(0, 200), st.integers(1, 9), min_size=1, max_size=30)


def measured(text: str) -> Measurement:
    """Return what wrk measured, from its whole output."""
    return measurement(text, wrk.parse(text))


def add_samples(raw: Mapping[int, int], interval: int) -> dict[int, int]:
    """Return the counts that wrk prints for measured ones, as its source adds samples: in place, from 2 intervals."""
    counts = Counter(raw)
    for time in range(2 * interval, max(raw) + 1):
        for earlier in range(time - interval, interval, -interval):
            counts[earlier] += counts[time]
    return {time: count for time, count in sorted(counts.items()) if count and time >= min(raw)}


def remove_samples(counts: Mapping[int, int], interval: int | None) -> dict[int, int]:
    values = np.array(list(counts), np.int64)
    found = without_additions(values, np.array(list(counts.values()), np.int64), interval)
    return {time: count for time, count in zip(values.tolist(), found.tolist(), strict=True) if count}


@given(raws, intervals)
def test_added_samples_are_removed(raw: dict[int, int], interval: int) -> None:
    corrected = add_samples(raw, interval)
    assert remove_samples(corrected, interval) == dict(sorted(raw.items()))
    assert add_samples(remove_samples(corrected, interval), interval) == corrected


def test_the_interval_is_computed_in_integers() -> None:
    assert expected_interval_us(10_005_120, 285_080, 64) == 10_005_120 // 4454
    assert expected_interval_us(1_000_000, 99, 100) is None
    assert expected_interval_us(1_000_000, 100, 100) == 1_000_000


def wrk_output(counts: Mapping[int, int], *, requests: int, timeout: int = 0, connections: int = 2) -> str:
    """Return wrk's output with such a histogram, for a run of 1000 µs."""
    cells = "".join(f"@{value} {count}\n" for value, count in counts.items())
    return f"""Running 1s test @ http://127.0.0.1:80/
  1 threads and {connections} connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.00ms    1.00ms   1.00ms  100.00%
    Req/Sec     1.00k     0.00     1.00k   100.00%
  {requests} requests in 1.00ms, 1.00KB read
Requests/sec:   1000.00
Transfer/sec:      1.00KB
--- benchkit latency histogram 1
duration_us 1000
requests {requests}
bytes 1024
errors_connect 0
errors_read 0
errors_write 0
errors_status 3
errors_timeout {timeout}
{cells}values {len(counts)}
counts {sum(counts.values())}
sum_us {sum(value * count for value, count in counts.items())}
--- end of benchkit latency histogram
"""


def test_series_and_counters() -> None:
    raw = {50: 5, 100: 3, 470: 2}  # 10 requests of 2 connections in 1000 µs: one per connection every 200 µs
    found = measured(wrk_output(add_samples(raw, 200), requests=10))
    assert set(found.histograms) == {"raw", "corrected"}
    raw_rows, corrected_rows = (
        list(zip(*found.histograms[name].columns(), strict=True)) for name in ("raw", "corrected")
    )
    assert raw_rows == [(50e-6, 50e-6, 5), (100e-6, 100e-6, 3), (470e-6, 470e-6, 2)]
    assert corrected_rows == [
        *((50e-6, 50e-6, 5), (100e-6, 100e-6, 3), (270e-6, 270e-6, 2), (470e-6, 470e-6, 2)),
    ]
    assert found.histograms["raw"].mean_s == pytest.approx((50 * 5 + 100 * 3 + 470 * 2) / 10 / 1e6, rel=1e-15)
    counters = found.counters
    assert (counters.requests, counters.recorded, counters.bytes_total, counters.non_2xx) == (10, 10, 1024, 3)
    assert found.complete
    assert found.duration_s == 1e-3
    assert [note.code for note in found.notes] == ["wrk-corrected"]
    assert found.latency().corrected is False


def test_late_answers_are_accounted_for() -> None:
    found = measured(wrk_output({50: 5}, requests=7, timeout=2))
    assert found.complete
    assert found.counters.errors.timeout == 2
    assert [note.code for note in found.notes] == ["timeouts"]


def test_unaccounted_requests_are_noted() -> None:
    found = measured(wrk_output({50: 5}, requests=7))
    assert not found.complete
    assert "wrk-unaccounted" in [note.code for note in found.notes]


def _changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


WHOLE = wrk_output({50: 5, 51: 1, 100: 3}, requests=9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE[: WHOLE.index("--- benchkit")], "no complete latency histogram"),
        (WHOLE[: WHOLE.index("--- end")], "no complete latency histogram"),
        (WHOLE + WHOLE[WHOLE.index("--- benchkit") :], "more than one"),
        (_changed(WHOLE, "histogram 1", "histogram 2"), "no complete latency histogram"),
        (_changed(WHOLE, "histogram\n", "histogram: failed: no field min\n"), "no field min"),
        (_changed(WHOLE, "@100 3", "@100 x"), "'@100 x'"),
        (_changed(WHOLE, "@100 3", "@49 3"), "do not add up to its sum_us"),
        (_changed(WHOLE, "bytes 1024\n", ""), "counters are missing or unknown"),
        (_changed(WHOLE, "bytes 1024", "bytes -1024"), "damaged"),
        (_changed(WHOLE, "@100 3\n", ""), "do not add up to its values"),
        (_changed(WHOLE, "@100 3\n", "@101 3\n"), "do not add up to its sum_us"),
        (_changed(WHOLE, "9 requests in", "8 requests in"), "8 requests in the summary, 9 in the histogram"),
        (_changed(WHOLE, "1 threads and 2 connections\n", ""), "the number of connections"),
        (wrk_output({50: 1, 600: 8}, requests=9), "at 600 µs"),
        (wrk_output({50: 1, 300: 2, 550: 6}, requests=9), "at 300 µs"),
    ],
)
def test_a_damaged_block_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as refused:
        measured(text)
    assert message in str(refused.value)


def check_against_summary(text: str) -> Measurement:
    """Check that the block agrees with wrk's summary, to the resolution of the summary."""
    found, summary = measured(text), wrk.parse(text)
    assert summary.complete
    assert found.complete
    counters = found.counters
    assert counters.requests == summary.requests
    assert counters.errors.timeout is not None
    assert counters.requests == counters.recorded + counters.errors.timeout
    assert counters.non_2xx == summary.non_2xx
    assert counters.errors == summary.errors
    assert summary.bytes_total is not None
    assert counters.bytes_total == pytest.approx(summary.bytes_total, rel=0.01, abs=20)
    if not counters.recorded:
        assert summary.latency.max_s is None
        return found
    corrected = found.histograms["corrected"]
    assert found.histograms["raw"].total == counters.recorded
    assert found.histograms["raw"].max_s == corrected.max_s
    for name, stated in summary.latency.percentiles.items():
        # wrk uses the request of rank round(n p + 1/2), HdrHistogram the one of rank ⌈n p⌉: the same or the next one.
        near = [corrected.percentile(float(name) + step * 100 / corrected.total) for step in (0, 0.5, 1)]
        assert any(each is not None and each == pytest.approx(stated, abs=step_of(stated)) for each in near), name
    assert corrected.mean_s == pytest.approx(summary.latency.mean_s, rel=0.01)
    assert corrected.max_s == pytest.approx(summary.latency.max_s, rel=0.01)
    return found


def step_of(seconds: float) -> float:
    """Return a little more than half the last digit of wrk's times: two decimals, in units up to 85 % of the next."""
    return next(unit for unit in (1e-6, 1e-3, 1.0) if seconds < 850 * unit) * 0.00501


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_histograms_agree_with_the_summary(path: Path) -> None:
    check_against_summary(path.read_text())


def run_wrk(url: str, *options: str, script: Path = HISTOGRAM) -> str:
    command = ["wrk", "-v", "--latency", "-s", str(script), *options, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@needs_wrk
@pytest.mark.parametrize("options", [("-t2", "-c8"), ("-t3", "-c10", "-H", "Connection: close")], ids=["keep", "close"])
def test_the_real_wrk(url: str, options: tuple[str, ...]) -> None:
    found = check_against_summary(run_wrk(url, "-d1s", *options))
    raw = found.histograms["raw"]
    assert isinstance(raw, Histogram)
    assert raw.total == found.counters.requests
    assert raw.mean_s is not None
    assert found.duration_s is not None
    if "-H" not in options:  # connecting is not in the latency
        in_flight = raw.total / found.duration_s * raw.mean_s
        assert 0.3 * 8 < in_flight < 1.05 * 8, "Little's law; wrk's own time between two requests is not in the latency"


@needs_wrk
def test_wrk_with_errors_and_late_answers(url: str) -> None:
    assert check_against_summary(run_wrk(f"{url}fail", "-d1s", "-t1", "-c3")).counters.non_2xx
    late = check_against_summary(run_wrk(f"{url}stall", "-d8s", "-t1", "-c2", "--timeout", "1s"))
    assert late.counters.errors.timeout == late.counters.requests
    # Each of two connections has an answer after 1.5 s, or some seconds later; in 8 s it has five at most.
    assert 2 <= late.counters.requests <= 10


WITHOUT_FFI = 'package.preload.ffi = function() error("no ffi") end\n'
WITHOUT_CALLS = 'debug.getregistry()["wrk.stats"].__call = nil\n'


@needs_wrk
@pytest.mark.parametrize("lack", [WITHOUT_FFI, WITHOUT_CALLS], ids=["by calls", "from memory"])
def test_the_script_reads_the_cells_either_way(url: str, tmp_path: Path, lack: str) -> None:
    script = tmp_path / "lacking.lua"
    script.write_text(f'{lack}dofile("{HISTOGRAM}")\n')
    check_against_summary(run_wrk(url, "-d1s", "-t1", "-c4", script=script))


@needs_wrk
def test_a_wrk_whose_cells_cannot_be_read_is_an_error(url: str, tmp_path: Path) -> None:
    script = tmp_path / "lacking.lua"
    script.write_text(f'{WITHOUT_FFI}{WITHOUT_CALLS}dofile("{HISTOGRAM}")\n')
    text = run_wrk(url, "-d1s", "-t1", "-c4", script=script)
    assert wrk.parse(text).complete
    with pytest.raises(ParseError, match="the script failed"):
        measured(text)
