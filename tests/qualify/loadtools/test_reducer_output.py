"""The reducer's file of recorded outputs and of real tools, compared with the parsers; and invalid files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.loadtools.generators.generator import REDUCER
from benchkit.loadtools.reducer_output import ReducerOutput, read
from benchkit.loadtools.text import decode
from benchkit.loadtools.tool import ToolOutput
from benchkit.loadtools.tools import siege, vegeta
from benchkit.loadtools.tools.hey import TEMPLATE
from benchkit.models.histogram import NS_PER_S
from benchkit.models.load_result import Latency, LoadResult
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
    ranks = np.percentile(times, [50, 90, 99], method="inverted_cdf") / 1000
    expected = Latency(
        min_s=min(times) / 1000,
        mean_s=sum(times) / len(times) / 1000,
        max_s=max(times) / 1000,
        percentiles=dict(zip(("50", "90", "99"), map(float, ranks), strict=True)),
    )
    same_latency(reduction, LoadResult(tool="ab", latency=expected))
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
