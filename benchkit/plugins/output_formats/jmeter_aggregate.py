"""Parser of the tables of JMeter's listeners "Aggregate Report" and "Summary Report": a row for each label.

Meaning of the figures, read from its source (SamplingStatCalculator, StatVisualizer, messages.properties):

- The last row, `TOTAL` in the language of its author, is of all samples. It is stated, or the only row.
- Times are milliseconds, the rate is samples per second; one that was copied from the window has its unit: `5.2/min`.
- The share of failures has a percent sign, or is a share of 1. It is rounded, so that their number may be unknown.
- Headings are the window's in several languages, or the keys of its messages (`aggregate_report_count`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchkit.loadtools.text import (
    MAX_LINE,
    csv_rows,
    implied_duration,
    latency_by_name,
    of_unit,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import LoadResult

_HEADINGS: Mapping[str, str] = {
    "requests": r"#\s?\S.*|samples|aggregate_report_count",
    "mean": r"average|平均值|moyenne|mittelwert|durchschnitt|media|média",
    "50%": r"median|aggregate_report_median|中位数|médiane|mediana",
    "min": r"min|minimum|aggregate_report_min|最小值|mín",
    "max": r"max|maximum|aggregate_report_max|最大值|máx",
    "stdev": r"std\. ?dev\.?|aggregate_report_stddev|标准偏差",
    "failed": r"error ?%|aggregate_report_error%|异常 ?%|% ?erreur|fehler ?%|% ?error|erro ?%",
    "rate": r"throughput|aggregate_report_rate|吞吐量|débit|durchsatz|rendimiento|vazão",
    "received": r"(?:received )?kb/sec|aggregate_report_bandwidth|接收 ?kb/sec",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _HEADINGS.items()}
_PERCENTILE = re.compile(
    r"(?:aggregate_report_)?([0-9]{1,2}(?:\.[0-9]{1,3})?) ?%[ _]?(?:line|百分位|\S*)", re.IGNORECASE
)
_LABEL = re.compile(r"label|sampler_label|标签|libellé|bezeichnung|etiqueta|rótulo", re.IGNORECASE)
_TOTAL = re.compile(r"total|gesamt|总体|合计|總體|合計", re.IGNORECASE)
_NEEDED = {"requests", "mean", "min", "max", "rate"}
_FIGURE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(%|/sec|/s|/min|/hour)?")
_UNITS = {None: 1.0, "": 1.0, "%": 0.01, "/sec": 1.0, "/s": 1.0, "/min": 1 / 60, "/hour": 1 / 3600}
DELIMITERS = (",", ";", "\t", "|")
"""Delimiters of the cells in tables of JMeter."""


def parse_aggregate(text: str) -> LoadResult | None:
    """Return the result of the row of all samples, or the only one; None for a text without such a row."""
    lines = [line.strip() for line in split_lines(text) if line.strip()]
    found = heading_of(lines[0]) if lines else None
    if found is None:
        return None
    columns, delimiter = found
    rows = [_cells(line, delimiter) for line in lines[1:] if line.strip(" |:-+")]
    row = next((row for row in rows if _TOTAL.fullmatch(row[0])), rows[0] if len(rows) == 1 else None)
    if row is None or len(row) < len(columns):
        return None
    cells = {name: cell for name, cell in zip(columns, row, strict=False) if name}
    if delimiter != ",":  # in a locale with commas for decimals
        cells = {name: cell.replace(",", ".") for name, cell in cells.items()}
    figures = {name: number for name, cell in cells.items() if (number := _figure(cell)) is not None}
    share, count, received = figures.get("failed"), figures.get("requests"), figures.get("received")
    requests = None if count is None else int(count)
    unread = [delimiter.join(each) for each in rows if len(each) < len(columns)]
    times = {name.removesuffix("%"): of_unit(ms, 1e-3) for name, ms in figures.items() if ms or not name.endswith("%")}
    return LoadResult(
        tool="jmeter",
        duration_s=implied_duration(requests, figures.get("rate")),
        requests=requests,
        rps=figures.get("rate"),
        bytes_per_s=None if received is None else received * 1024,
        latency=latency_by_name(times, "connect+request"),
        failed=_failed(requests, share, cells.get("failed", "")),
        availability=None if share is None or share > 1 else float(f"{1 - share:.12g}"),
        complete=not unread and {"requests", "rate"} <= figures.keys(),
        notes=tuple(unread_notes(unread)),
    )


def heading_of(line: str) -> tuple[Sequence[str], str] | None:
    """Return a name for each column of a heading, empty for unused ones, and its delimiter; None for other lines."""
    for delimiter in DELIMITERS if len(line) <= MAX_LINE else ():
        cells = _cells(line, delimiter)
        names = [_name(cell) for cell in cells]
        if set(names) >= _NEEDED and _LABEL.fullmatch(cells[0]):
            return names, delimiter
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    bare = line.strip().strip("|") if delimiter == "|" else line
    return [cell.strip() for cell in next(csv_rows([bare], delimiter))]


def _name(cell: str) -> str:
    if match := _PERCENTILE.fullmatch(cell):
        return f"{float(match[1]):g}%"
    return next((name for name, pattern in _PATTERNS.items() if pattern.fullmatch(cell)), "")


def _figure(cell: str) -> float | None:
    match = _FIGURE.fullmatch(cell)
    return None if match is None else float(f"{float(match[1]) * _UNITS[match[2]]:.15g}")


def _failed(requests: int | None, share: float | None, cell: str) -> int | None:
    """Return the number of failed samples, if only one number has this rounded share; None otherwise."""
    if requests is None or share is None or share > 1:
        return None
    failed = round(share * requests)
    if not cell.endswith("%") and cell.rstrip("0") == cell.removesuffix(".0").removesuffix("0"):
        return failed  # not rounded: a share of 1 is printed with all digits, without trailing zeros
    step = 10.0 ** -len(cell.rstrip("%").partition(".")[2]) * (0.01 if cell.endswith("%") else 1)
    return failed if step * requests < 1 else None
