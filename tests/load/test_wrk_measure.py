"""wrk's histogram with its additions undone: against the addition itself, recorded outputs, and wrk."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.load.measurement import Measurement
from benchkit.load.tools.wrk import output as wrk
from benchkit.load.tools.wrk.command import SCRIPT
from benchkit.load.tools.wrk.measure import expected_interval_us, measurement, read_block, without_additions
from benchkit.models.histogram import Histogram

pytestmark = pytest.mark.long

FIXTURES = Path(__file__).parents[1] / "fixtures" / "histograms"
RECORDED = sorted(FIXTURES.glob("wrk-*.txt"))

intervals = st.integers(1, 60)
raws = st.dictionaries(st.integers(0, 200), st.integers(1, 9), min_size=1, max_size=30)


def with_additions(raw: Mapping[int, int], interval: int) -> dict[int, int]:
    """What wrk makes of measured counts and shows of it, told from its source: in place, from twice the interval up."""
    counts = Counter(raw)
    for time in range(2 * interval, max(raw) + 1):
        for earlier in range(time - interval, interval, -interval):
            counts[earlier] += counts[time]
    return {time: count for time, count in sorted(counts.items()) if count and time >= min(raw)}


def undone(counts: Mapping[int, int], interval: int | None) -> dict[int, int]:
    values = np.array(list(counts), np.int64)
    found = without_additions(values, np.array(list(counts.values()), np.int64), interval)
    return {time: count for time, count in zip(values.tolist(), found.tolist(), strict=True) if count}


@given(raws, intervals)
def test_what_was_added_is_taken_out(raw: dict[int, int], interval: int) -> None:
    corrected = with_additions(raw, interval)
    assert undone(corrected, interval) == dict(sorted(raw.items()))
    assert with_additions(undone(corrected, interval), interval) == corrected


@given(raws, intervals, st.data())
def test_counts_that_wrk_cannot_have_made_are_refused_or_made_so(
    raw: dict[int, int], interval: int, data: st.DataObject
) -> None:
    corrected = with_additions(raw, interval)
    time = data.draw(st.sampled_from(sorted(corrected)))
    corrected[time] = data.draw(st.integers(0, 30))
    corrected = {each: count for each, count in corrected.items() if count}
    try:
        found = undone(corrected, interval)
    except ParseError:
        return
    assert (with_additions(found, interval) if found else {}) == corrected


def test_without_an_interval_nothing_was_added() -> None:
    assert undone({5: 2, 900: 1}, None) == {5: 2, 900: 1}
    assert undone({}, 7) == {}


def test_interval_is_that_of_integers() -> None:
    assert expected_interval_us(10_005_120, 285_080, 64) == 10_005_120 // 4454
    assert expected_interval_us(1_000_000, 99, 100) is None
    assert expected_interval_us(1_000_000, 100, 100) == 1_000_000


def printed(counts: Mapping[int, int], *, requests: int, timeout: int = 0, connections: int = 2) -> str:
    """What wrk prints with such a histogram, over 1000 µs."""
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
    raw = {50: 5, 100: 3, 470: 2}  # 10 requests of 2 connections in 1000 µs: every 200 µs
    found = measurement(printed(with_additions(raw, 200), requests=10))
    assert set(found.histograms) == {"raw", "corrected"}
    assert list(found.histograms["raw"].rows()) == [(50e-6, 50e-6, 5), (100e-6, 100e-6, 3), (470e-6, 470e-6, 2)]
    assert list(found.histograms["corrected"].rows()) == [
        *((50e-6, 50e-6, 5), (100e-6, 100e-6, 3), (270e-6, 270e-6, 2), (470e-6, 470e-6, 2)),
    ]
    assert found.histograms["raw"].mean_s == pytest.approx((50 * 5 + 100 * 3 + 470 * 2) / 10 / 1e6, rel=1e-15)
    counters = found.counters
    assert (counters.requests, counters.recorded, counters.bytes_total, counters.non_2xx) == (10, 10, 1024, 3)
    assert found.complete
    assert found.duration_s == 1e-3
    assert [note.code for note in found.notes] == ["wrk-corrected"]
    assert found.latency("raw").corrected is False
    assert found.latency("corrected").corrected is True


def test_late_answers_are_accounted_for() -> None:
    found = measurement(printed({50: 5}, requests=7, timeout=2))
    assert found.complete
    assert found.counters.errors.timeout == 2
    assert [note.code for note in found.notes] == ["timeouts"]


def test_requests_unaccounted_for_are_said() -> None:
    found = measurement(printed({50: 5}, requests=7))
    assert not found.complete
    assert "wrk-unaccounted" in [note.code for note in found.notes]


def test_nothing_recorded_has_no_histogram() -> None:
    found = measurement(printed({}, requests=0))
    assert found.histograms == {}
    assert found.latency().percentiles == {}
    assert found.complete


def _changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


WHOLE = printed({50: 5, 51: 1, 100: 3}, requests=9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WHOLE[: WHOLE.index("--- benchkit")], "no complete latency histogram"),
        (WHOLE[: WHOLE.index("--- end")], "no complete latency histogram"),
        (WHOLE + WHOLE[WHOLE.index("--- benchkit") :], "more than one"),
        (_changed(WHOLE, "histogram 1", "histogram 2"), "version 2"),
        (_changed(WHOLE, "histogram\n", "histogram: failed: no field min\n"), "no field min"),
        (_changed(WHOLE, "@100 3", "@100 x"), "'@100 x'"),
        (_changed(WHOLE, "@100 3", "@100 0"), "damaged"),
        (_changed(WHOLE, "@100 3", "@49 3"), "'@49'"),
        (_changed(WHOLE, "@100 3", "@50 3"), "'@50'"),
        (_changed(WHOLE, "@50 5", "5"), "damaged"),
        (_changed(WHOLE, "bytes 1024\n", ""), "unknown or missing counters"),
        (_changed(WHOLE, "bytes 1024\n", "bytes 1024\nbytes 1024\n"), "'bytes 1024'"),
        (_changed(WHOLE, "bytes 1024", "bytes -1024"), "damaged"),
        (_changed(WHOLE, "bytes 1024", "bytes nan"), "damaged"),
        (_changed(WHOLE, "@100 3\n", ""), "states values 3, but has 2"),
        (_changed(WHOLE, "@100 3\n", "@100 4\n"), "states counts 9, but has 10"),
        (_changed(WHOLE, "@100 3\n", "@101 3\n"), "states sum_us"),
        (_changed(WHOLE, "9 requests in", "8 requests in"), "8 requests in the summary, 9 in the histogram"),
        (_changed(WHOLE, "1 threads and 2 connections\n", ""), "the number of connections"),
        (printed({50: 1, 600: 8}, requests=9), "at 600 µs"),
        (printed({50: 1, 300: 2, 550: 6}, requests=9), "at 300 µs"),
    ],
)
def test_damage_is_refused(text: str, says: str) -> None:
    with pytest.raises(ParseError) as refused:
        measurement(text)
    assert says in str(refused.value)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_changed_figure_is_refused_or_is_another(path: Path) -> None:
    text = path.read_text()
    block = text.index("--- benchkit latency histogram")
    original = read_block(text)
    digits = [match.start() for match in re.finditer("[0-9]", text[block:])]
    for place in digits[:: max(1, len(digits) // 300)]:
        at = block + place
        changed = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
        try:
            found = read_block(changed)
        except ParseError:
            continue
        assert found.counters != original.counters


def check_against_summary(text: str) -> Measurement:
    """The block agrees with what wrk itself prints, to the resolution of that."""
    found, summary = measurement(text), wrk.parse(text)
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
        # wrk takes the request of rank round(n p + 1/2), HdrHistogram that of ⌈n p⌉: the same or the next.
        near = [corrected.percentile(float(name) + step * 100 / corrected.total) for step in (0, 0.5, 1)]
        assert any(each is not None and each == pytest.approx(stated, abs=step_of(stated)) for each in near), name
    assert corrected.mean_s == pytest.approx(summary.latency.mean_s, rel=0.01)
    assert corrected.max_s == pytest.approx(summary.latency.max_s, rel=0.01)
    return found


def step_of(seconds: float) -> float:
    """Half the last digit that wrk prints of a time, and a little: two decimals in a unit that ends at 85 %."""
    return next(unit for unit in (1e-6, 1e-3, 1.0) if seconds < 850 * unit) * 0.00501


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_outputs_agree_with_what_wrk_printed(path: Path) -> None:
    check_against_summary(path.read_text())


def test_a_recorded_output_has_additions() -> None:
    found = measurement((FIXTURES / "wrk-v410-keepalive.txt").read_text())
    assert found.histograms["corrected"].total > found.histograms["raw"].total * 1.05


@pytest.fixture
def url() -> Iterator[str]:
    """A small server on loopback."""
    command = [sys.executable, str(Path(__file__).with_name("small_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
        server.communicate(timeout=10)


def run_wrk(url: str, *options: str, script: Path = SCRIPT) -> str:
    command = ["wrk", "-v", "--latency", "-s", str(script), *options, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.mark.lab
@needs_wrk
@pytest.mark.parametrize("options", [("-t2", "-c8"), ("-t3", "-c10", "-H", "Connection: close")], ids=["keep", "close"])
def test_wrk_itself(url: str, options: tuple[str, ...]) -> None:
    found = check_against_summary(run_wrk(url, "-d1s", *options))
    raw = found.histograms["raw"]
    assert isinstance(raw, Histogram)
    assert raw.total == found.counters.requests
    assert raw.mean_s is not None
    assert found.duration_s is not None
    if "-H" not in options:  # connecting is in no latency
        in_flight = raw.total / found.duration_s * raw.mean_s
        assert 0.7 * 8 < in_flight < 1.05 * 8, "Little's law; wrk's own time between two requests is in no latency"


@pytest.mark.lab
@needs_wrk
def test_wrk_with_errors_and_late_answers(url: str) -> None:
    assert check_against_summary(run_wrk(f"{url}fail", "-d1s", "-t1", "-c3")).counters.non_2xx
    late = check_against_summary(run_wrk(f"{url}stall", "-d2s", "-t1", "-c2", "--timeout", "1s"))
    assert late.counters.errors.timeout == late.counters.requests == 2


WITHOUT_FFI = 'package.preload.ffi = function() error("no ffi") end\n'
WITHOUT_CALLS = 'debug.getregistry()["wrk.stats"].__call = nil\n'


@pytest.mark.lab
@needs_wrk
@pytest.mark.parametrize("lack", [WITHOUT_FFI, WITHOUT_CALLS], ids=["by calls", "from memory"])
def test_wrk_gives_its_cells_either_way(url: str, tmp_path: Path, lack: str) -> None:
    script = tmp_path / "lacking.lua"
    script.write_text(f'{lack}dofile("{SCRIPT}")\n')
    check_against_summary(run_wrk(url, "-d1s", "-t1", "-c4", script=script))


@pytest.mark.lab
@needs_wrk
def test_a_wrk_that_gives_its_cells_in_neither_way_is_an_error(url: str, tmp_path: Path) -> None:
    script = tmp_path / "lacking.lua"
    script.write_text(f'{WITHOUT_FFI}{WITHOUT_CALLS}dofile("{SCRIPT}")\n')
    text = run_wrk(url, "-d1s", "-t1", "-c4", script=script)
    assert wrk.parse(text).complete
    with pytest.raises(ParseError, match="the script failed"):
        measurement(text)
