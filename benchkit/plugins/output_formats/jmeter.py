"""Parser of JMeter's results (2 to 5): JTL as CSV and XML, the lines of its summariser, and `statistics.json`.

Meaning of the figures, read from its source (SampleResult, CSVSaveService, Summariser, SummaryReportTask):

- A row of a JTL is a sample: `elapsed` in milliseconds, from before connecting to the end of the answer. `timeStamp` is
  its start (`sampleresult.timestamp.start`, the default). `Latency` runs to the first byte. `bytes` are headers and
  body.
- A transaction controller adds a row for its requests together ("Number of samples in transaction"), which is no
  request. In XML samples within a sample are parts of it (redirects, embedded files), but those of a transaction are
  requests.
- `success` is false for a status of 400 and more, a failed assertion, or "Non HTTP response code" (no answer).
- Duration is from the first start to the last end, and the rate is samples ÷ duration, as JMeter's reports have it.
- The summariser's lines `+` are of the last interval, those with `=` of the run so far; the last `=` is stated.
  Times are whole milliseconds (the mean rounded down), the duration whole seconds; decimals have the locale's comma.
- `statistics.json` names its percentiles 1 to 3: 90, 95 and 99 unless `aggregate_rpt_pct1` and so on say otherwise.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pydantic import ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, find_document, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import (
    MAX_LINE,
    PART_OF_RUN,
    Count,
    Figure,
    all_of_unit,
    count_non_2xx,
    csv_rows,
    errors_of,
    excerpt,
    has_any,
    implied_duration,
    latency_by_name,
    latency_of,
    line_with,
    no_end_mark,
    not_output_of,
    of_unit,
    parse_count,
    several_runs,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.plugins.output_formats.jmeter_aggregate import DELIMITERS, heading_of, parse_aggregate

_TRANSACTION = "Number of samples in transaction"


class _Sample(NamedTuple):
    """One request; times in milliseconds."""

    start_ms: float | None
    elapsed_ms: int
    code: str
    message: str
    is_success: bool | None
    size: int | None
    first_byte_ms: int | None
    threads: int | None


@dataclass
class _Rows:
    """Samples of a JTL, and what could not be read."""

    samples: list[_Sample] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    transactions: int = 0

    def add(self, figures: dict[str, str], line: str) -> None:
        """Add the sample of a row, by the names of its columns in CSV; one without a time is unread."""
        elapsed = parse_count(figures.get("elapsed"))
        if elapsed is None:
            self.unread.append(line)
        elif figures.get("responseMessage", "").startswith(_TRANSACTION):
            self.transactions += 1
        else:
            success = figures.get("success", "").lower()
            self.samples.append(
                _Sample(
                    _start(figures.get("timeStamp")),
                    elapsed,
                    figures.get("responseCode", ""),
                    figures.get("responseMessage", ""),
                    success == "true" if success in {"true", "false"} else None,
                    parse_count(figures.get("bytes")),
                    parse_count(figures.get("Latency")),
                    parse_count(figures.get("allThreads")),
                )
            )


_FORMATS = (
    "%Y/%m/%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y/%m/%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y/%m/%d %H:%M:%S,%f",
)


def _start(text: str | None) -> float | None:
    """Return a `timeStamp` in milliseconds; it may be a date (`jmeter.save.saveservice.timestamp_format`)."""
    if text is None or (number := parse_count(text)) is not None:
        return None if text is None else number
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form).timestamp() * 1000  # noqa: DTZ007 - only differences are used
        except ValueError:
            continue
    return None


def _of_rows(rows: _Rows, *, complete: bool, notes: tuple[Note, ...]) -> LoadResult:
    samples = rows.samples
    starts = [sample.start_ms for sample in samples if sample.start_ms is not None]
    ends = [sample.start_ms + sample.elapsed_ms for sample in samples if sample.start_ms is not None]
    is_timed = len(starts) == len(samples) > 0
    duration = of_unit(max(ends) - min(starts), 1e-3) if is_timed else None
    sizes = [sample.size for sample in samples if sample.size is not None]
    first = [sample.first_byte_ms for sample in samples if sample.first_byte_ms is not None]
    statuses = Counter(sample.code for sample in samples if re.fullmatch(r"[1-5][0-9]{2}", sample.code))
    judged = bool(samples) and all(sample.is_success is not None for sample in samples)
    is_coded = sum(statuses.values()) == len(samples) or any(sample.code.startswith("Non HTTP") for sample in samples)
    threads = max((sample.threads for sample in samples if sample.threads is not None), default=None)
    if rows.transactions:
        message = f"{rows.transactions:,} rows of transactions are not counted as requests"
        notes = (Note(code="transactions", message=message), *notes)
    return LoadResult(
        tool="jmeter",
        duration_s=duration,
        requests=len(samples) if not rows.unread else None,
        rps=float(f"{len(samples) / duration:.12g}") if duration and not rows.unread else None,
        threads=threads,
        users=threads,
        bytes_total=sum(sizes) if len(sizes) == len(samples) > 0 and not rows.unread else None,
        latency=latency_of((sample.elapsed_ms for sample in samples), 1e-3),
        first_byte_mean_s=float(f"{sum(first) / len(first) * 1e-3:.12g}")
        if len(first) == len(samples) == sum(statuses.values()) > 0
        else None,
        errors=_errors(samples) if judged else Errors(),
        status=dict(sorted(statuses.items())),
        non_2xx=count_non_2xx(statuses) if samples and is_coded else None,
        failed=sum(1 for sample in samples if not sample.is_success) if judged else None,
        complete=complete and bool(samples) and not rows.unread,
        notes=(*notes, *unread_notes(rows.unread)),
    )


def _errors(samples: Iterable[_Sample]) -> Errors:
    """Return failures by kind: of requests without an answer by their exception, of failed assertions as others."""
    messages: Counter[str] = Counter()
    asserted = 0
    for sample in samples:
        if sample.is_success:
            continue
        if sample.code.startswith("Non HTTP"):
            messages[f"{sample.code} {sample.message}"] += 1
        elif sample.code[:1] in {"1", "2", "3"}:
            asserted += 1
    return errors_of(messages, asserted)


_COLUMNS = frozenset(
    {"timeStamp", "elapsed", "label", "responseCode", "success", "Latency", "threadName", "allThreads"}
)
_MIN_COLUMNS = 3
"""Least number of `_COLUMNS` in the heading of a JTL, beside `elapsed`: which ones it has can be configured."""
_STAMP = re.compile(r"1[0-9]{12}|[0-9]{4}[/-][0-9]{2}[/-][0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,3})?")
_CODE = re.compile(r"[1-5][0-9]{2}|Non HTTP response code: .*|")
_FIRST = ("timeStamp", "elapsed", "label", "responseCode")
_TO_SUCCESS = (*_FIRST, "responseMessage", "threadName", "dataType", "success")
_COUNTS = ("bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect")
_BEHIND = {
    8: _COUNTS,  # from 4.0 on
    7: tuple(name for name in _COUNTS if name != "URL"),
    6: tuple(name for name in _COUNTS if name not in {"URL", "sentBytes"}),
    5: ("bytes", "grpThreads", "allThreads", "Latency", "IdleTime"),
    4: ("bytes", "grpThreads", "allThreads", "Latency"),  # 2.13
    2: ("bytes", "Latency"),
}
"""Columns after `success` (and `failureMessage`, from 3.0 on) by their number: the defaults of each version."""


def _columns_of(line: str) -> tuple[list[str], str] | None:
    """Return the columns and the delimiter of a JTL without a heading, by its first row; None for any other line.

    The order of columns is fixed, whichever are saved. If they are no version's defaults, only the first four and
    `success` are named.
    """
    for delimiter in DELIMITERS if len(line) <= MAX_LINE else ():
        cells = next(csv_rows([line], delimiter))
        at = next((i for i, cell in enumerate(cells) if cell in {"true", "false"}), 0)
        if at < len(_FIRST) or not (_STAMP.fullmatch(cells[0]) and cells[1].isdigit() and _CODE.fullmatch(cells[3])):
            continue
        behind = cells[at + 1 :]
        failure = ("failureMessage",) if behind and not behind[0].isdigit() else ()
        known = _BEHIND.get(len(behind) - len(failure)) if at + 1 == len(_TO_SUCCESS) else None
        if known is not None:
            return [*_TO_SUCCESS, *failure, *known], delimiter
        names = [*_FIRST, *(f"column {i}" for i in range(len(_FIRST), len(cells)))]
        names[at] = "success"
        return names, delimiter
    return None


def _heading(line: str) -> tuple[list[str], str] | None:
    """Return the columns and the delimiter of a JTL's heading; None for any other line."""
    for delimiter in DELIMITERS:
        names = [name.strip().strip('"') for name in line.split(delimiter)]
        if "elapsed" in names and len(_COLUMNS & set(names)) > _MIN_COLUMNS:
            return names, delimiter
    return None


def _parse_csv(text: str) -> LoadResult | None:
    lines = [line for line in split_lines(text) if line.strip()]
    heading = _heading(lines[0]) if lines else None
    body = lines[1:]
    if heading is None and lines:
        heading, body = _columns_of(lines[0]), lines
    if heading is None:
        return None
    if any(_heading(line) for line in body if line[:1] in 'te"lr' and "elapsed" in line):
        raise several_runs("jmeter", lines[0])
    names, delimiter = heading
    rows = _Rows()
    if body and not text.endswith("\n"):
        body[-1] = body[-1].rstrip("0123456789")  # its last figure may lack digits
    for row in csv_rows(body, delimiter):
        if len(row) == len(names):
            rows.add(dict(zip(names, row, strict=True)), delimiter.join(row))
        else:
            rows.unread.append(delimiter.join(row))
    return _of_rows(rows, complete=True, notes=(no_end_mark("a JTL in CSV"),))


_TAG = re.compile(r"<(/?)(httpSample|sample)((?:\s+[\w:.-]{1,40}=(?:\"[^\"]*\"|'[^']*'))*)\s*(/?)>")
_ATTRIBUTE = re.compile(r"([\w:.-]{1,40})=(?:\"([^\"]*)\"|'([^']*)')")
_OPEN_XML, _CLOSE_XML = re.compile(r"<testResults\b"), re.compile(r"</testResults>")
_XML_COLUMNS = {
    "ts": "timeStamp",
    "t": "elapsed",
    "rc": "responseCode",
    "rm": "responseMessage",
    "s": "success",
    "by": "bytes",
    "lt": "Latency",
    "na": "allThreads",
}


def _parse_xml(text: str) -> LoadResult | None:
    begins = len(_OPEN_XML.findall(text))
    if begins > 1:
        raise several_runs("jmeter", "<testResults")
    if not begins and not re.search(r"<(?:httpSample|sample)\s[^<>]{0,2000}\bts=[\"']", text):
        return None
    rows = _Rows()
    counted: list[bool] = []
    """For each open sample, whether those within it are requests."""
    for tag in _TAG.finditer(text):
        if tag[1]:
            if counted:
                counted.pop()
            continue
        figures = {
            _XML_COLUMNS.get(name, name): html.unescape(value or single)
            for name, value, single in _ATTRIBUTE.findall(tag[3])
        }
        is_transaction = figures.get("responseMessage", "").startswith(_TRANSACTION)
        if all(counted):
            rows.add(figures, tag[0])
        if not tag[4]:
            counted.append(is_transaction)
    is_whole = begins == 1 and _CLOSE_XML.search(text) is not None
    return _of_rows(rows, complete=is_whole, notes=() if is_whole else (PART_OF_RUN,))


_SUMMARY = re.compile(
    r"([+=])\s+([0-9]{1,12}) in\s+(?:([0-9]{1,6}):([0-9]{2}):([0-9]{2})|([0-9]{1,9}(?:[.,][0-9])?)s)"
    r" =\s+([0-9]{1,12}(?:[.,][0-9])?)/s Avg:\s+([0-9]{1,12}) Min:\s+([0-9]{1,12}) Max:\s+([0-9]{1,12})"
    r" Err:\s+([0-9]{1,12}) \([0-9.,]+\s?%\)(?: Active: ([0-9]{1,9}))?(?: Started: ?([0-9]{1,9}))? ?(?:Finished: ?[0-9]+)?$"
)
_DAMAGED = re.compile(r"(?:^|\s)summary [+=]\s+[0-9]|[+=]\s+[0-9]+ in\s+[0-9:.,]+s? =")
_BEGUN = re.compile(r"Starting (?:the|standalone|remote) (?:test|engines)\b|Creating summariser")
_ENDED = re.compile(r"\.\.\. end of run|Tidying up ")


class _Summariser:
    """The lines of a summariser: the last of the whole run, and what stands around them."""

    def __init__(self) -> None:
        self.last: re.Match[str] | None = None
        """The last line with `=`."""
        self.first: re.Match[str] | None = None
        """The first line with `+`: its interval begins with the run, so that JMeter prints no `=` after it."""
        self.intervals = 0
        self.is_parted = False
        """True where other text, and no line with `+`, follows the last one: as between the lines of two runs."""
        self.unread: list[str] = []
        self.active = 0
        """Threads that were active at the last line that states them."""
        self.threads: int | None = None
        self.has_begun = False
        self.has_ended = False

    def read_line(self, line: str) -> None:
        if _BEGUN.search(line):
            if self.has_ended or self.last is not None:
                raise several_runs("jmeter", line)
            self.has_begun = True
        elif _ENDED.search(line):
            self.has_ended = True
        elif match := _SUMMARY.search(line):
            self.read_summary(match)
        elif _DAMAGED.search(line):
            self.unread.append(line)
        elif line and self.last is not None:
            self.is_parted = True

    def read_summary(self, match: re.Match[str]) -> None:
        if match[12]:
            self.active, self.threads = int(match[12]), max(self.threads or 0, int(match[13] or match[12]))
        if match[1] == "+":
            self.intervals, self.is_parted = self.intervals + 1, False
            self.first = self.first or match
            return
        if self.last is not None and (int(match[2]) < int(self.last[2]) or self.is_parted):
            raise several_runs("jmeter", match[0])
        self.last, self.is_parted = match, False


def _parse_summary(text: str) -> LoadResult | None:
    """Return the result of the summariser's last line `=`; None for other text."""
    lines = _Summariser()
    for line in split_lines(text):
        if len(line) <= MAX_LINE:
            lines.read_line(line.strip())
    if lines.last is None and lines.first is not None and lines.intervals == 1:
        return _of_summary(lines.first, lines.threads, complete=False, unread=lines.unread)
    if lines.last is None:
        if lines.intervals:
            raise ParseError(
                "the lines of jmeter's summariser are of intervals only",
                hint="give its line with `=`, which is of the whole run",
            )
        if lines.unread:
            raise ParseError("jmeter's summary could not be read", why=excerpt(lines.unread[0]))
        return None
    is_running = lines.has_begun or lines.active > 0
    complete = not lines.unread and (lines.has_ended or not is_running)
    return _of_summary(lines.last, lines.threads, complete=complete, unread=lines.unread)


def _of_summary(last: re.Match[str], threads: int | None, *, complete: bool, unread: list[str]) -> LoadResult:
    hours, minutes, seconds, decimal = last.group(3, 4, 5, 6)
    duration = float(decimal.replace(",", ".")) if decimal else int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    requests = int(last[2])
    times = {
        name: of_unit(int(ms), 1e-3) for name, ms in zip(("mean", "min", "max"), last.group(8, 9, 10), strict=True)
    }
    latency = latency_by_name(times if requests else {}, "connect+request")
    return LoadResult(
        tool="jmeter",
        duration_s=duration,
        requests=requests,
        rps=float(last[7].replace(",", ".")),
        threads=threads,
        users=threads,
        latency=latency.model_copy(update={"resolution_s": 1e-3 if requests else None}),
        failed=int(last[11]),
        complete=complete,
        notes=(
            Note(code="summariser", message="times are whole milliseconds; the summariser states no percentiles"),
            *([] if decimal else [Note(code="whole-seconds", message="the duration is rounded down to whole seconds")]),
            *([] if complete else [PART_OF_RUN]),
            *unread_notes(unread),
        ),
    )


class _JmeterStatistics(JsonOutput):
    """Figures of a label or of the total; times are milliseconds."""

    model_config = ConfigDict(alias_generator=to_camel)

    transaction: str
    sample_count: Count
    error_count: Count
    mean_res_time: Figure
    median_res_time: Figure | None = None
    min_res_time: Figure
    max_res_time: Figure
    pct1_res_time: Figure | None = None
    pct2_res_time: Figure | None = None
    pct3_res_time: Figure | None = None
    throughput: Figure
    received: Figure | None = Field(default=None, alias="receivedKBytesPerSec")
    """Kilobytes per second."""


class _JmeterLabels(RootModel[dict[str, _JmeterStatistics]]):
    """The whole document: figures by label."""


_STATISTICS = re.compile(r'"pct1ResTime"\s*:')


def _parse_statistics(text: str) -> LoadResult | None:
    document = find_document(text, _STATISTICS, "jmeter")
    if document is None:
        return None
    labels = read_document(document, _JmeterLabels, "jmeter").root
    total = labels.get("Total") or (next(iter(labels.values())) if len(labels) == 1 else None)
    if total is None:
        raise ParseError("this statistics.json of jmeter has no total", hint="was it cut?")
    times = {
        "min": total.min_res_time,
        "mean": total.mean_res_time,
        "max": total.max_res_time,
        "50": total.median_res_time,
        "90": total.pct1_res_time,
        "95": total.pct2_res_time,
        "99": total.pct3_res_time,
    }
    return LoadResult(
        tool="jmeter",
        duration_s=implied_duration(total.sample_count, total.throughput),
        requests=total.sample_count,
        rps=total.throughput,
        bytes_per_s=None if total.received is None else total.received * 1024,
        latency=latency_by_name(all_of_unit(times, 1e-3) if total.sample_count else {}, "connect+request"),
        failed=total.error_count,
        notes=(
            Note(
                code="ranks-assumed",
                message="statistics.json does not say which percentiles it has: 90, 95 and 99 are JMeter's defaults",
            ),
        ),
    )


def parse(text: str) -> LoadResult:
    """Return the result of a JTL, of a report's table, of the summariser's lines, or of `statistics.json`.

    Raises ParseError for other text, and for several runs.
    """
    for read in (_parse_csv, parse_aggregate, _parse_xml, _parse_statistics, _parse_summary):
        if (result := read(text)) is not None:
            return result
    raise not_output_of("jmeter", split_lines(text))


def _recognise(text: str) -> bool:
    first = next((line for line in text.split("\n", 50) if line.strip()), "")
    has_table = _heading(first) or _columns_of(first) or (heading_of(first) and parse_aggregate(text))
    return bool(has_table) or _has_mark(text)


_MARK = re.compile(
    r"<testResults\b|<(?:httpSample|sample) [^<>\n]{0,2000}\bts=[\"']|Creating summariser <"
    r"|[+=]\s+[0-9]{1,12} in\s+[0-9:.,]{1,12}s? =\s+[0-9.,]{1,16}/s Avg:\s"
)
_has_mark = has_any(_MARK, _STATISTICS)
FORMAT = OutputFormat(
    "jmeter",
    _recognise,
    parse,
    (line_with("Creating summariser <"), line_with(r"Starting (?:the|standalone|remote) ")),
)
