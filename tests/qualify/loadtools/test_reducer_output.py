"""The reducer's file of recorded outputs and of real tools, compared with the parsers; and invalid files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.loadtools.generators.generator import REDUCER
from benchkit.loadtools.reducer_output import ReducerOutput, read
from benchkit.loadtools.text import decode, latency_of
from benchkit.loadtools.tool import ToolOutput
from benchkit.loadtools.tools import ab, siege, vegeta
from benchkit.loadtools.tools.hey import TEMPLATE, read_counters
from benchkit.models.histogram import NS_PER_S
from benchkit.models.load_result import LoadResult
from benchkit.services.go_build import GoSource
from tests.support.loadtools.fixtures import GOARCH
from tests.support.loadtools.reductions import document_with_histogram, measured, payload, wrapped
from tests.support.paths import TESTS

RECORDED = TESTS / "fixtures" / "load"
HISTOGRAMS = TESTS / "fixtures" / "histograms"
HEY_HEADING = TEMPLATE.partition("\n")[0]


@pytest.fixture(scope="module")
def reducer() -> Path:
    """The reducer, built for this machine."""
    return GoSource(REDUCER, sys.platform, GOARCH).read()


def reduce_file(reducer: Path, tool: str, path: Path, folder: Path, *options: str) -> tuple[ReducerOutput, str]:
    """Return the reduction of a tool's output at `path`, and the text among the rows; write both in `folder`."""
    rows = folder / "rows"
    if path != rows:
        shutil.copyfile(path, rows)
    subprocess.run([reducer, "-tool", tool, *options, rows], check=True, timeout=30)
    return read((folder / "rows.json").read_bytes()), (folder / "rows.txt").read_text()


def same_latency(reduction: ReducerOutput, expected: LoadResult) -> None:
    """Check extremes and mean exactly, and percentiles to the histogram's 1/16384."""
    found = measured(reduction).latency()
    assert found.min_s == expected.latency.min_s
    assert found.max_s == expected.latency.max_s
    assert found.mean_s == pytest.approx(expected.latency.mean_s, rel=1e-9)
    common = found.percentiles.keys() & expected.latency.percentiles.keys()
    assert {"50", "90"} <= common
    for name in common:
        assert found.percentiles[name] == pytest.approx(expected.latency.percentiles[name], rel=1 / 16384), name


def test_the_reducer_reads_abs_table(reducer: Path, tmp_path: Path) -> None:
    path = HISTOGRAMS / "ab-v23-g.txt"
    times = [int(line.split("\t")[4]) for line in path.read_text().splitlines()[1:]]
    reduction, rest = reduce_file(reducer, "ab", path, tmp_path)
    same_latency(reduction, LoadResult(tool="ab", latency=latency_of(times, 1e-3)))
    assert (reduction.rows, rest) == (len(times), "")
    with pytest.raises(ParseError, match="rows of ab, not of vegeta"):
        vegeta.measure(ToolOutput("", reduction=reduction.model_dump_json().encode()))


def test_the_reducer_passes_on_sieges_summary(reducer: Path, tmp_path: Path) -> None:
    path = RECORDED / "siege" / "v407-verbose.txt"
    text = decode(path.read_bytes())
    reduction, rest = reduce_file(reducer, "siege", path, tmp_path)
    expected = siege.parse(text)
    assert siege.parse(rest) == expected
    assert reduction.rows == expected.requests == text.count("secs:")
    found = measured(reduction)
    assert found.complete
    assert found.latency().max_s == expected.latency.max_s
    assert found.counters.status == {"200": reduction.rows}
    assert found.counters.bytes_total == 12 * reduction.rows


def test_times_of_vegeta_at_a_rate_count_from_when_requests_were_due(reducer: Path, tmp_path: Path) -> None:
    """Read the same stream with and without its schedule: the lag is the difference."""
    stream = HISTOGRAMS / "vegeta-v12-stream.gob"
    made = json.loads((HISTOGRAMS / "vegeta-v12-stream.made.json").read_text())
    (flag,) = re.findall(r"-rate[= ]([0-9]+)", str(made))
    interval = f"{NS_PER_S // int(flag)}ns"
    due = measured(reduce_file(reducer, "vegeta", stream, tmp_path, "-interval", interval)[0])
    sent = measured(reduce_file(reducer, "vegeta", stream, tmp_path)[0])
    assert (sent.latency_from, sent.lag, due.latency_from) == ("sent", None, "due")
    assert due.lag is not None
    assert due.lag.total == sent.counters.requests
    assert due.latency().mean_s == pytest.approx((sent.latency().mean_s or 0) + (due.lag.mean_s or 0), rel=1e-6)


@pytest.mark.parametrize("name", ["vegeta-v12-stream", "vegeta-v12-refused"])
def test_the_reducer_agrees_with_vegetas_own_report(reducer: Path, tmp_path: Path, name: str) -> None:
    expected = vegeta.parse((HISTOGRAMS / f"{name}.report.json").read_text())
    reduction, _ = reduce_file(reducer, "vegeta", HISTOGRAMS / f"{name}.gob", tmp_path)
    found = vegeta.measure(ToolOutput("", reduction=reduction.model_dump_json().encode())).result
    for field in ("requests", "rps", "duration_s", "bytes_total", "non_2xx", "failed", "availability", "complete"):
        assert getattr(found, field) == pytest.approx(getattr(expected, field)), field
    assert found.status == expected.status
    assert found.latency.min_s == expected.latency.min_s
    assert found.latency.max_s == expected.latency.max_s
    assert found.latency.mean_s == pytest.approx(expected.latency.mean_s, abs=1e-9)  # vegeta truncates
    for percentile in ("50", "90", "95"):  # vegeta estimates percentiles
        assert found.latency.percentiles[percentile] == pytest.approx(expected.latency.percentiles[percentile], rel=0.1)


def test_vegetas_failures_are_counted_by_kind(reducer: Path, tmp_path: Path) -> None:
    refused, _ = reduce_file(reducer, "vegeta", HISTOGRAMS / "vegeta-v12-refused.gob", tmp_path)
    found = measured(refused).counters
    assert (found.requests, found.errors.connect, found.errors.other, found.non_2xx) == (50, 50, 0, 0)
    assert len(refused.errors) == 1
    failing, _ = reduce_file(reducer, "vegeta", HISTOGRAMS / "vegeta-v12-stream.gob", tmp_path)
    found = measured(failing).counters
    assert found.status == {"200": 100, "503": 50}
    assert (found.errors.connect, found.errors.other, found.non_2xx) == (0, 0, 50)


def test_unread_rows_are_noted(reducer: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(f"{HEY_HEADING}\n0.000239526,200,0.000131\nNaN,<script>\x1b[0m\n")
    found = measured(reduce_file(reducer, "hey", path, tmp_path)[0])
    assert not found.complete
    (note,) = [note for note in found.notes if note.code == "unread"]
    assert note.message.startswith("1 rows could not be read; the first: NaN,<script>")
    assert "\x1b" not in note.message


def test_truncated_rows_are_noted(reducer: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gob"
    path.write_bytes((HISTOGRAMS / "vegeta-v12-stream.gob").read_bytes()[:-100])
    found = measured(reduce_file(reducer, "vegeta", path, tmp_path)[0])
    assert not found.complete
    assert [note.code for note in found.notes] == ["rows-cut"]


def test_dropped_text_is_noted(reducer: Path, tmp_path: Path) -> None:
    path = tmp_path / "flood"
    path.write_text("[error] a line that is no row\n" * 40_000)
    reduction, rest = reduce_file(reducer, "siege", path, tmp_path)
    assert len(rest) == 1 << 20
    assert [note.code for note in measured(reduction).notes] == ["text-cut"]


def test_a_file_without_rows_is_incomplete(reducer: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    reduction, _ = reduce_file(reducer, "vegeta", path, tmp_path)
    assert measured(reduction).histograms == {}
    result = vegeta.measure(ToolOutput("", reduction=reduction.model_dump_json().encode())).result
    assert not result.complete
    assert result.latency.percentiles == {}


# -- invalid files


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60))
def test_any_histogram_payload_is_read_or_refused(numbers: bytes) -> None:
    try:
        found = measured(read(json.dumps(document_with_histogram(wrapped(payload(numbers))))))
    except ParseError:
        return
    assert found.histograms["raw"].total == 3


# -- real tools


def reduce_run(reducer: Path, tool: str, command: list[str], folder: Path) -> tuple[ReducerOutput, str, str]:
    """Run a tool and reduce the rows that it wrote; return the reduction, the text among the rows, and stderr."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    rows = folder / "rows"
    with rows.open("ab") as output:  # ab opens /dev/stdout again for its rows, and prints its summary at the end
        ran = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.PIPE, check=True, timeout=30)
    return *reduce_file(reducer, tool, rows, folder), ran.stderr.decode()


def test_the_real_hey(reducer: Path, url: str, tmp_path: Path) -> None:
    command = ["hey", "-n", "300", "-c", "3", "-o", TEMPLATE, f"{url}fail"]
    reduction, rest, _ = reduce_run(reducer, "hey", command, tmp_path)
    found = measured(reduction)
    assert found.complete
    assert (found.counters.recorded, found.counters.status) == (300, {"200": 200, "503": 100})
    assert read_counters(rest).requests == 300


def test_the_real_ab(reducer: Path, url: str, tmp_path: Path) -> None:
    command = ["ab", "-k", "-c4", "-n2000", "-g", "/dev/stdout", url]
    reduction, summary, _ = reduce_run(reducer, "ab", command, tmp_path)
    stated, found = ab.parse(summary), measured(reduction)
    assert stated.complete
    assert found.complete
    assert found.counters.requests == stated.requests == 2000
    histogram = found.histograms["raw"]
    assert histogram.min_s == stated.latency.min_s
    assert histogram.max_s == stated.latency.max_s
    assert histogram.mean_s == pytest.approx(stated.latency.mean_s, abs=1e-3)  # ab rounds each row, and the mean again
    for name, value in stated.latency.percentiles.items():
        ours = histogram.percentile(float(name))
        assert ours is not None
        # ab uses the request of index ⌊n p⌋ from zero, which is the next rank.
        next_rank = histogram.percentile(min(100.0, float(name) + 100 / histogram.total))
        assert next_rank is not None
        assert ours <= value <= next_rank, name


def test_the_real_siege(reducer: Path, url: str, tmp_path: Path) -> None:
    (tmp_path / "siege.conf").write_text(
        "verbose = true\ncolor = on\njson_output = false\nlogging = false\nlimit = 9\n"
    )
    command = ["siege", "--rc=siege.conf", "-b", "-c4", "-r25", f"{url}slow"]
    reduction, rest, errors = reduce_run(reducer, "siege", command, tmp_path)
    stated, found = siege.parse(rest + errors), measured(reduction)
    assert found.complete
    assert found.counters.requests == stated.requests == 100
    assert found.latency().min_s == stated.latency.min_s
    assert found.latency().max_s == stated.latency.max_s
    assert found.latency().mean_s == pytest.approx(stated.latency.mean_s, abs=0.01)
    assert found.counters.status == {"200": 100}
