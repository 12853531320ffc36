"""Parser of JMeter's results (2 to 5): JTL as CSV with its heading, and the lines of its summariser.

- A row of a JTL is a sample: `elapsed` in milliseconds, from before connecting to the end of the answer. `timeStamp` is
  its start. `Latency` runs to the first byte. `bytes` are headers and body. A transaction controller adds a row for its
  requests together, not a request. `success` is false for a status of 400 and more, a failed assertion, or "Non
  HTTP response code" (no answer). Duration is from the first start to the last end.
- The summariser's lines `+` are of the last interval, those with `=` of the run so far; the last `=` is stated.
  Times are whole milliseconds, the duration whole seconds; decimals have the locale's comma.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence

from benchkit.errors import ParseError
from benchkit.loadtools.reader import OutputFormat
from benchkit.loadtools.text import (
    all_of_unit,
    count_non_2xx,
    csv_rows,
    errors_of,
    has_any,
    latency_by_name,
    line_with,
    not_output_of,
    of_unit,
    parse_count,
    several_runs,
    unread_notes,
)
from benchkit.models.load_result import Latency, LoadResult, Note

PERCENTILES = (10, 25, 50, 66, 75, 80, 90, 95, 98, 99, 99.9, 99.99)
_NO_END = Note(code="no-end-mark", message="a JTL in CSV has no end mark: whether it has the whole run cannot be known")
_HEADING = line_with(r'"?timeStamp"?([,;\t])"?elapsed"?\1')
_TRANSACTION = "Number of samples in transaction"
_SUMMARY = re.compile(
    r"(?P<kind>[+=])\s+(?P<requests>[0-9]{1,12}) in\s+(?P<time>[0-9]{1,6}:[0-9]{2}:[0-9]{2}|[0-9]{1,9}(?:[.,][0-9])?(?=s))s?"
    r" =\s+(?P<rps>[0-9]{1,12}(?:[.,][0-9])?)/s"
    r" Avg:\s+(?P<mean>[0-9]{1,12}) Min:\s+(?P<min>[0-9]{1,12}) Max:\s+(?P<max>[0-9]{1,12})"
    r" Err:\s+(?P<failed>[0-9]{1,12}) \([0-9.,]+\s?%\)(?: Active: (?P<active>[0-9]{1,9}))?(?: Started: ?(?P<threads>[0-9]{1,9}))?"
)
_BEGUN = re.compile(r"Starting (?:the|standalone|remote) (?:test|engines)\b|Creating summariser")
_ENDED = re.compile(r"\.\.\. end of run|Tidying up ")


def _read_csv(lines: Sequence[str], delimiter: str) -> LoadResult:
    names, *rows = csv_rows(lines, delimiter)
    if names in rows:
        raise several_runs("jmeter", lines[0])
    named = [dict(zip(names, row, strict=False)) for row in rows]
    whole = [row for row in named if len(row) == len(names) and parse_count(row["elapsed"]) is not None]
    samples = [row for row in whole if not row.get("responseMessage", "").startswith(_TRANSACTION)]
    unread = [",".join(row.values()) for row in named if row not in whole]
    requests = None if unread else len(samples)

    def column(name: str) -> list[int] | None:
        found = [number for row in samples if (number := parse_count(row.get(name))) is not None]
        return found if len(found) == len(samples) > 0 and not unread else None

    elapsed, starts, sizes, first = column("elapsed") or [], column("timeStamp"), column("bytes"), column("Latency")
    ended = max((start + time for start, time in zip(starts or (), elapsed, strict=False)), default=0)
    duration_s = of_unit(ended - min(starts), 1e-3) if starts else None
    statuses = Counter(code for row in samples if re.fullmatch(r"[1-5][0-9]{2}", code := row.get("responseCode", "")))
    failed = [row for row in samples if row.get("success", "").lower() == "false"]
    unanswered = [row for row in failed if row.get("responseCode", "").startswith("Non HTTP")]
    messages = Counter(f"{row['responseCode']} {row.get('responseMessage', '')}" for row in unanswered)
    asserted = sum(row.get("responseCode", "")[:1] in {"1", "2", "3"} for row in failed)
    threads = max(column("allThreads") or (), default=None)
    left_out = len(whole) - len(samples)
    transactions = Note(code="transactions", message=f"{left_out:,} rows of transactions are not counted as requests")
    return LoadResult(
        tool="jmeter",
        duration_s=duration_s,
        requests=requests,
        rps=float(f"{requests / duration_s:.12g}") if requests and duration_s else None,
        threads=threads,
        users=threads,
        bytes_total=None if sizes is None else sum(sizes),
        latency=_latency([int(row["elapsed"]) for row in samples]),
        first_byte_mean_s=float(f"{sum(first) / len(first) * 1e-3:.12g}") if first and not unanswered else None,
        errors=errors_of(messages, asserted),
        status=dict(sorted(statuses.items())),
        non_2xx=count_non_2xx(statuses) if statuses else None,
        failed=len(failed) if "success" in names else None,
        complete=bool(samples) and not unread,
        notes=(*([transactions] if left_out else []), _NO_END, *unread_notes(unread)),
    )


def _latency(elapsed_ms: Sequence[int]) -> Latency:
    """Return the latency of samples; percentiles are by nearest rank, and only those below the longest time."""
    if not elapsed_ms:
        return Latency(covers="connect+request", corrected=False, resolution_s=1e-3)
    ordered, n = sorted(elapsed_ms), len(elapsed_ms)
    times: dict[str, float] = {"min": ordered[0], "mean": statistics.fmean(ordered), "max": ordered[-1]}
    times |= {f"{p:g}": ordered[math.ceil(p * n / 100 - 1e-6) - 1] for p in PERCENTILES if p < 100 * (1 - 1 / n) + 1e-9}
    return latency_by_name(all_of_unit(times, 1e-3), "connect+request", step_s=1e-3)


def _decimal(token: str) -> float:
    return float(token.replace(",", "."))


def _read_summary(found: Sequence[re.Match[str]], text: str) -> LoadResult:
    whole = [match for match in found if match["kind"] == "="]
    if not whole:
        hint = "give its line with `=`, which is of the whole run"
        raise ParseError("the lines of jmeter's summariser are of intervals only", hint=hint)
    if [int(match["requests"]) for match in whole] != sorted(int(match["requests"]) for match in whole):
        raise several_runs("jmeter", whole[-1][0])
    last, requests = whole[-1], int(whole[-1]["requests"])
    active, threads = next(
        ((each["active"], each["threads"] or each["active"]) for each in found[::-1] if each["active"]), ("0", None)
    )
    is_whole = _ENDED.search(text) is not None or not (_BEGUN.search(text) or int(active))
    times = {name: of_unit(float(last[name]), 1e-3) for name in ("mean", "min", "max")} if requests else {}
    return LoadResult(
        tool="jmeter",
        duration_s=sum(_decimal(part) * 60**place for place, part in enumerate(reversed(last["time"].split(":")))),
        requests=requests,
        rps=_decimal(last["rps"]),
        threads=parse_count(threads),
        users=parse_count(threads),
        latency=latency_by_name(times, "connect+request", step_s=1e-3 if requests else None),
        failed=int(last["failed"]),
        complete=is_whole,
    )


def parse(text: str) -> LoadResult:
    """Return the result of a JTL, or of the summariser's lines. Raises ParseError."""
    if heading := _HEADING.search(text):
        return _read_csv([line for line in text[heading.start() :].split("\n") if line.strip()], heading[1])
    found = list(_SUMMARY.finditer(text))
    if not found:
        raise not_output_of("jmeter", text.split("\n"))
    return _read_summary(found, text)


FORMAT = OutputFormat("jmeter", has_any(_HEADING, _SUMMARY, line_with("Creating summariser <")), parse)
