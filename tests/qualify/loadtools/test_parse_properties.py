"""Properties of every parser: for any text, and for damaged and truncated outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.loadtools.formats import FORMATS, UNSUPPORTED, read_output, split_runs
from benchkit.loadtools.preparation import prepare
from benchkit.loadtools.text import decode
from benchkit.models.load_result import LoadResult
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "load"
OUTPUTS = {path.relative_to(FIXTURES): path.read_text() for path in sorted(FIXTURES.glob("*/*.txt"))}
ROWS = re.compile(r"v23-[eg]\.|csv|-log\.|hist|hdrplot|points")
"""Files of rows, which look complete when truncated between two rows."""
SUMMARIES = {path: text for path, text in OUTPUTS.items() if not ROWS.search(path.name)}
OF_RUNS = {Path("siege/v407-log.txt")}
"""Files with a row for each run, of which the last is read."""
NO_END_MARK = re.compile(r"ab/v23-g|(?:hey|oha|jmeter)/.*csv|locust/.*history|k6/.*points|vegeta/.*-hist")
"""Files of rows, a request or a time each, of which nothing tells whether rows are missing at the end."""

FIGURE = r"([0-9][0-9.]*)"
STATED = {
    "wrk": (
        rf"^  {FIGURE} threads? and {FIGURE} connections",
        rf"^    Latency\s+{FIGURE}\S*\s+{FIGURE}\S*\s+{FIGURE}",
        rf"^  {FIGURE} requests in {FIGURE}\w+, {FIGURE}",
        rf"errors: connect {FIGURE}, read {FIGURE}, write {FIGURE}, timeout {FIGURE}",
        rf"^(?:Requests|Transfer)/sec:\s+{FIGURE}",
        rf"3xx responses: {FIGURE}",
    ),
    "ab": (
        rf"^(?:Concurrency Level|Complete requests|Failed requests|Non-2xx responses|Total transferred):\s+{FIGURE}",
        rf"^(?:Time taken for tests|Requests per second|Transfer rate):\s+{FIGURE}",
        rf"^Total:\s+{FIGURE}\s+{FIGURE}\s+{FIGURE}",
        rf"^\s+[0-9]+%\s+{FIGURE}",
        rf"\(Connect: {FIGURE}, Receive: {FIGURE}, Length: {FIGURE}, Exceptions: {FIGURE}\)",
    ),
    "hey": (
        rf"^  (?:Total|Slowest|Fastest|Average|Requests/sec|Total data):\s+{FIGURE}",
        rf"^  [1-9][0-9]*% in {FIGURE}",
        rf"^  \[[0-9]+\]\t{FIGURE} responses",
        rf"^  \[{FIGURE}\]\t\D",
    ),
    "siege": (
        rf"^(?:Transactions|Availability|Elapsed time|Data transferred|Failed transactions):\s+{FIGURE}",
        rf"^(?:Transaction rate|Throughput|Response time|Longest transaction|Shortest transaction):\s+{FIGURE}",
        rf'"(?:transactions|availability|elapsed_time|failed_transactions|longest_transaction)":\s+{FIGURE}',
    ),
    "vegeta": (
        rf"^Requests .*\]\s+{FIGURE}, {FIGURE}",
        rf"^Latencies .*\]\s+{FIGURE}\w+, {FIGURE}\w+, {FIGURE}",
        rf"^Success .*\]\s+{FIGURE}",
        rf"^Status Codes .*\]\s+[0-9]+:{FIGURE}(?:  [0-9]+:{FIGURE})?",
        rf'"(?:requests|rate|success|50th|90th|95th|99th|max|min)":{FIGURE}',
        rf'"latencies":{{{{"total":[0-9]+,"mean":{FIGURE}',
        rf'"bytes_in":{{{{"total":{FIGURE}',
        rf'"status_codes":{{{{"200":{FIGURE}',
    ),
    "h2load": (
        rf"^finished in {FIGURE}\w+, {FIGURE} req/s, {FIGURE}",
        rf"^requests: {FIGURE} total, .* {FIGURE} failed, {FIGURE} errored, {FIGURE} timeout",
        rf"codes: [0-9]+ 2xx, {FIGURE} 3xx, {FIGURE} 4xx, {FIGURE} 5xx",
        rf"^traffic: \S+ \({FIGURE}\) total",
        rf"^time for request:\s+{FIGURE}\w+\s+{FIGURE}\w+\s+{FIGURE}\w+\s+{FIGURE}",
    ),
    "oha": (
        rf"^  (?:Success rate|Total|Slowest|Fastest|Average|Requests/sec|Total data|Size/sec):\t{FIGURE}",
        rf"distribution:\n  10.00% in {FIGURE} .*\n  25.00% in {FIGURE} .*\n  50.00% in {FIGURE} ",
        rf"^  \[[0-9]+\] {FIGURE} responses",
        rf"^  \[{FIGURE}\] \D",
        r'^    "(?:successRate|total|slowest|fastest|average|totalData|sizePerSec)": ([0-9][0-9.]{0,14})',
    ),
    "k6": (
        rf"^ +http_req_duration\.*: avg={FIGURE}\S+ +min={FIGURE}\S+ +med={FIGURE}\S+ +max={FIGURE}",
        rf"^ +(?:http_reqs|dropped_iterations)\.*: {FIGURE} +",
        rf"^ +http_reqs\.*: [0-9]+ +{FIGURE}/s",
        rf"^ +http_req_failed\.*: [0-9.]+% +{FIGURE} out",
        rf"^ +data_received\.*: {FIGURE} .?B +{FIGURE} ",
    ),
    "bombardier": (
        rf"^  Reqs/sec +{FIGURE}",
        rf"^  Latency +{FIGURE}\w+ +{FIGURE}\w+ +{FIGURE}",
        rf"^     [0-9]+% +{FIGURE}",
        rf"1xx - {FIGURE}, 2xx - {FIGURE}, 3xx - {FIGURE}, 4xx - {FIGURE}, 5xx - {FIGURE}",
        rf"others - {FIGURE}",
        rf"Throughput: +{FIGURE}",
        rf'"(?:bytesRead|timeTakenSeconds|req2xx|req5xx|others)":{FIGURE}',
        rf'"latency":{{{{"mean":{FIGURE},"stddev":{FIGURE},"max":{FIGURE}',
    ),
    "autocannon": (
        rf"^│ Latency │ {FIGURE} ms │ {FIGURE} ms +│ {FIGURE} ms +│ {FIGURE} ms +│ {FIGURE} ms +│ {FIGURE}",
        rf"requests in {FIGURE}s, {FIGURE}",
        rf"[0-9]+ 2xx responses, {FIGURE} non",
        rf'"(?:connections|duration|errors|timeouts|non2xx)":{FIGURE}',
        rf'"latency":{{{{"average":{FIGURE},"mean":[0-9.]+,"stddev":{FIGURE},"min":{FIGURE},"max":{FIGURE}',
    ),
    "openloop": (rf'"(?:duration_s|requests|bytes|i/o timeout)":{FIGURE}',),
}
"""Patterns of lines whose figures a LoadResult has; each figure is a group."""

HEADINGS = {"connections", "threads", "users", "dropped"}
"""Figures that tools print before the others, or in rows that excerpts leave out."""
STRICT = {"wrk", "wrk2", "ab", "hey", "siege", "vegeta", "h2load", "openloop"}
"""Tools whose text has its figures from beginning to end; other tools' text is complete with its last rows."""

OF_A_PART = {"no-end-mark", "part-of-run", "live-table"}
"""Notes which say that figures may be, or are, of a part of the run."""
DIFFERENT = {
    "oha-aborted-unknown": ("rps",),
    "rate-rounded": ("rps", "duration_s"),
}
"""Notes which say that figures differ from the whole text's, which states them better."""

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _read(tool: str, text: str) -> LoadResult | None:
    try:
        return FORMATS[tool].parse(prepare(text).text)
    except ParseError:
        return None


def _figures(result: LoadResult | None) -> dict[str, Any]:
    """Return every figure of a result by its path, without notes and flags."""
    if result is None:
        return {}
    plain = result.model_dump(
        exclude_none=True, exclude={"notes", "complete", "tool", "tool_version", "target", "negotiated"}
    )
    latency = plain.pop("latency")
    for drop in ("covers", "corrected", "resolution_s"):
        latency.pop(drop, None)
    groups = {"latency": latency, "percentiles": latency.pop("percentiles"), **plain}
    return {
        f"{name}.{key}" if isinstance(group, dict) else name: value
        for name, group in groups.items()
        for key, value in (group.items() if isinstance(group, dict) else ((None, group),))
    }


@quick
@given(st.sampled_from(sorted(FORMATS)), st.text())
def test_any_text_is_read_or_refused(tool: str, text: str) -> None:
    _read(tool, text)


@quick
@given(st.sampled_from(sorted(FORMATS)), st.binary())
def test_any_bytes_are_read_or_refused(tool: str, data: bytes) -> None:
    _read(tool, decode(data))


@quick
@given(st.data())
def test_a_damaged_output_is_read_with_finite_figures_or_refused(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(OUTPUTS)))
    text = OUTPUTS[path]
    start, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 40))
    result = _read(path.parent.name, text[:start] + data.draw(st.text(max_size=20)) + text[start + length :])
    for value in _figures(result).values():
        assert value >= 0
        assert math.isfinite(value)


@settings(quick, max_examples=600)
@given(st.data())
def test_a_truncated_output_gives_no_figure_that_the_whole_does_not(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in sorted(OUTPUTS) if path not in OF_RUNS]))
    text, tool = OUTPUTS[path], path.parent.name
    end = data.draw(st.integers(0, len(text) - 1))
    for part, is_beginning in ((text[:end], True), (text[end:], False)):
        if (cut := _read(tool, part)) is not None:
            _check_part(cut, text, part, may_lack_rows=not is_beginning and tool not in STRICT)


def _check_part(cut: LoadResult, text: str, part: str, *, may_lack_rows: bool) -> None:
    """Check that the result of a part of a text has no figure that no run in the text has, and says what it lacks."""
    codes = {note.code for note in cut.notes}
    figures = _figures(cut)
    if "no-end-mark" in codes or (codes & OF_A_PART and not cut.complete):
        return
    if cut.tool in {"ab", "fortio"}:  # without its table, a mean is from "Time per request", or from the last line
        figures.pop("latency.mean_s", None)
    for code in codes & DIFFERENT.keys():
        figures = {name: value for name, value in figures.items() if name not in DIFFERENT[code]}
    runs = [run for each in split_runs(FORMATS[cut.tool], text) if (run := _read(cut.tool, each)) is not None]
    wholes = [whole for run in runs if figures.items() <= (whole := _figures(run)).items()]
    assert wholes or not figures, part
    if not may_lack_rows and all(whole.keys() - _figures(cut).keys() - HEADINGS for whole in wholes):
        assert not cut.complete, part
    if cut.negotiated is not None:
        stated = cut.negotiated.model_dump(exclude_none=True).items()
        assert any(run.negotiated and stated <= run.negotiated.model_dump().items() for run in runs), part


@pytest.mark.parametrize("path", [path for path in sorted(OUTPUTS) if NO_END_MARK.match(str(path))], ids=str)
def test_rows_cut_at_a_line_end_say_that_their_end_is_not_known(path: Path) -> None:
    rows = OUTPUTS[path].splitlines(keepends=True)
    for end in (len(rows) // 2 + 1, len(rows) - 1):
        cut = _read(path.parent.name, "".join(rows[:end]))
        assert cut is not None
        assert "no-end-mark" in {note.code for note in cut.notes}


def _positions(tool: str, text: str) -> Iterator[int]:
    """Yield the positions of the digits of figures that a LoadResult has."""
    for pattern in STATED.get(tool, ()):
        for match in re.finditer(pattern, text, re.MULTILINE):
            for group in range(1, len(match.groups()) + 1):
                yield from (i for i in range(*match.span(group)) if text[i].isdigit())


@pytest.mark.parametrize("path", [p for p, text in SUMMARIES.items() if _read(p.parent.name, text)], ids=str)
def test_a_changed_digit_changes_the_result_or_is_refused(path: Path) -> None:
    text, tool = SUMMARIES[path], path.parent.name
    figures = _figures(_read(tool, text))
    for position in _positions(tool, text):
        other = text[:position] + ("7" if text[position] != "7" else "3") + text[position + 1 :]
        result = _read(tool, other)
        assert result is None or not result.complete or _figures(result) != figures, other[
            position - 40 : position + 20
        ]


@pytest.mark.parametrize("path", sorted(SUMMARIES), ids=str)
def test_encoding_and_quoting_do_not_change_the_result(path: Path) -> None:
    text, tool = SUMMARIES[path], path.parent.name
    plain = _read(tool, text)
    forms = (
        text.encode("utf-8-sig"),
        text.replace("\n", "\r\n").encode("utf-16"),
        text.encode("utf-16-le"),
        "".join(f"    {line}\n" for line in text.splitlines()).encode(),
        "".join(f"> {line}\n" for line in text.splitlines()).encode(),
        "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()).encode(),
        text.replace(" ", "\u00a0").encode(),
    )
    for form in forms:
        assert _read(tool, decode(form)) == plain, form[:60]


@pytest.mark.parametrize("path", sorted(OUTPUTS), ids=str)
def test_two_runs_in_one_text_are_refused(path: Path) -> None:
    text, tool = OUTPUTS[path], path.parent.name
    if path.name.startswith("v407-log"):  # siege appends a row for each run
        assert _read(tool, text + text) is not None
        return
    with pytest.raises(ParseError):
        read_output(tool, text + text, where="twice.txt", command="parse {tool} twice.txt")


@pytest.mark.parametrize("tool", sorted(FORMATS))
def test_megabytes_of_other_text_are_refused_quickly(tool: str) -> None:
    """Check that no pattern takes time quadratic in the length of a line or text."""
    for junk in ("a" * 200_000, "1.5 " * 50_000, "Latency 1 " * 20_000, "((((" * 50_000, "...apr_x: b" * 20_000):
        assert _read(tool, junk) is None
        assert _read(tool, junk.replace(" ", "\n")) is None


def _recognised(text: str) -> set[str]:
    prepared = prepare(text).text
    return {each.tool for each in FORMATS.values() if each.recognise(prepared)} | {
        name for name, is_output in UNSUPPORTED.items() if is_output(prepared)
    }


@settings(quick, max_examples=600)
@given(st.data())
def test_a_part_of_an_output_is_never_recognised_as_that_of_another_tool(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(OUTPUTS)))
    start = data.draw(st.integers(0, len(OUTPUTS[path])))
    part = OUTPUTS[path][start : data.draw(st.integers(start, len(OUTPUTS[path])))]
    beginning = {"wrk"} if path.parent.name == "wrk2" else set()  # both begin alike
    assert _recognised(part) <= {path.parent.name} | beginning


@settings(quick, max_examples=200)
@given(st.data())
def test_lines_of_two_tools_are_read_or_refused_and_recognised_as_theirs(data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from(sorted(OUTPUTS)), min_size=2, max_size=2))
    parts = [OUTPUTS[path].splitlines()[:60] for path in paths]
    order = data.draw(st.permutations([0] * len(parts[0]) + [1] * len(parts[1])))
    lines = [iter(part) for part in parts]
    mixed = "\n".join(next(lines[which]) for which in order)
    assert _recognised(mixed) <= {path.parent.name for path in paths}
    for each in FORMATS.values():
        assert all(math.isfinite(value) and value >= 0 for value in _figures(_read(each.tool, mixed)).values())
