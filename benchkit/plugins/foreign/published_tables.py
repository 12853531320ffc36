"""Tables in texts: CSV, Markdown, HTML, AsciiDoc, reStructuredText, and tables drawn in other text. Pure.

All but CSV and Markdown are first rewritten as tables of Markdown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from benchkit.loadtools.text import csv_rows
from benchkit.plugins.foreign.published_columns import column_of
from benchkit.plugins.foreign.published_numbers import plain, read_number

_BORDER = re.compile(r"[\s|+:=\-─━│┃┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬═║╞╪╡]*[-=─━═]{1,}[\s|+:=\-─━│┃┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬═║╞╪╡]*")
_DRAWN = str.maketrans("│┃║", "|||")
_TITLE = re.compile(r"\s*#{1,6}\s+(.*?)\s*#*\s*|\s*\*\*(.+?)\*\*[:\uff1a]?\s*")
_HTML_TABLE = re.compile(r"<table\b(?:(?!<table\b).)*?</table>", re.DOTALL | re.IGNORECASE)
_HTML_TITLE = re.compile(r"<(h[1-6])\b[^<>]*>((?:(?!<h[1-6]\b).)*?)</\1>", re.DOTALL | re.IGNORECASE)
_HTML_CELL = re.compile(r"<t[hd]\b([^<>]*)>(.*?)(?=<t[hd]\b|</t[hd]|</tr|\Z)", re.DOTALL | re.IGNORECASE)
_ASCIIDOC = re.compile(r"^(?:\.(?=\S)(.*)\n)?(?:\[.*\]\n)?\|===[ \t]*\n(.*?)^\|===[ \t]*$", re.DOTALL | re.MULTILINE)
_ASCIIDOC_CELL = re.compile(r"(?:^|(?<=\s))[\d.+*<>^]*[adehlmsv]?\|", re.MULTILINE)
_LIST_TABLE = re.compile(r"^\.\. list-table::[ \t]*(.*)\n((?:[ \t]+.*\n|[ \t]*\n)*)", re.MULTILINE)
_RULER = re.compile(r"\s*[-=─]{2,}(?:\s+[-=─]{2,})+\s*")


@dataclass(frozen=True)
class RawTable:
    """A table as it stands in a text; its cells are plain."""

    heads: Sequence[str]
    rows: Sequence[Mapping[str, str]]
    title: str | None = None
    """Heading above it."""
    before: str = ""
    """Text between this table and the heading or table before it; for the only table, all text around it."""


def tables_of(text: str) -> list[RawTable]:
    """Return the tables of a text; empty where it has none."""
    text = _HTML_TABLE.sub(_bars_of_html, _HTML_TITLE.sub(r"\n# \2\n", text))
    text = _LIST_TABLE.sub(_bars_of_list, _ASCIIDOC.sub(_bars_of_asciidoc, text + "\n"))
    lines = text.translate(_DRAWN).splitlines()
    tables = list(_piped(lines)) or list(_piped(list(_bars_of_columns(lines))))
    if len(tables) == 1:  # what stands below a table may say its unit, too
        around = " ".join(
            plain(line) for line in lines if "|" not in line and line.strip() and not _TITLE.fullmatch(line)
        )
        tables = [replace(tables[0], before=around)]
    return tables or _separated([line.strip() for line in lines if line.strip()])


def _barred(rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in cells]


def _bars_of_html(match: re.Match[str]) -> str:
    rows: list[list[str]] = []
    over: list[list[str]] = []
    held: dict[int, tuple[int, str]] = {}
    for row in re.split(r"<tr\b[^>]*>", match[0], flags=re.IGNORECASE)[1:]:
        cells: list[str] = []
        is_head = re.search(r"<td\b", row, re.IGNORECASE) is None
        for attributes, content in [*_HTML_CELL.findall(row), ("", "")]:
            while held.get(len(cells), (0, ""))[0]:
                rest, above = held[len(cells)]
                held[len(cells)] = (rest - 1, above)
                cells.append(above)
            spans = {name.lower(): int(n) for name, n in re.findall(r"(\w+span)\s*=\s*[\"']?(\d{1,3})", attributes)}
            cell = html.unescape(content)
            held[len(cells)] = (spans.get("rowspan", 1) - 1, cell)
            cells += [cell, *[cell if is_head else ""] * (spans.get("colspan", 1) - 1)]
        (over if is_head and not rows else rows).append(cells[:-1])
    if over:  # headings above headings
        rows.insert(0, [" ".join(dict.fromkeys(column)) for column in zip_longest(*over, fillvalue="")])
    return "\n\n" + "\n".join(_barred(rows)) + "\n\n"


def _bars_of_asciidoc(match: re.Match[str]) -> str:
    first, *_ = re.split(r"\n[ \t]*\n", match[2].strip())
    line = first.splitlines()[0] if first else ""
    width = len(_ASCIIDOC_CELL.split(line)) - 1
    width = len(_ASCIIDOC_CELL.split(first)) - 1 if width == 1 else width
    cells = _ASCIIDOC_CELL.split(match[2])[1:]
    rows = [cells[start : start + width] for start in range(0, len(cells), width or 1)]
    return "\n".join(("", f"# {match[1]}" if match[1] else "", *_barred(rows), ""))


def _bars_of_list(match: re.Match[str]) -> str:
    rows = re.split(r"^[ \t]+\*[ \t]+-", match[2], flags=re.MULTILINE)[1:]
    cells = [re.split(r"^[ \t]+-(?:[ \t]|$)", row, flags=re.MULTILINE) for row in rows]
    return "\n".join(("", f"# {match[1]}" if match[1] else "", *_barred(cells), "", ""))


def _bars_of_columns(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, with bars between columns that blanks, or a line of dashes for each column, separate."""
    for is_block, group in groupby(lines, lambda line: bool(line.strip()) and "\t" not in line):
        block = list(group)
        yield from (_bars_of_block(block) if is_block else block)


def _bars_of_block(block: Sequence[str]) -> Sequence[str]:
    rulers = [number for number, line in enumerate(block) if _RULER.fullmatch(line)]
    if rulers:
        starts = [match.start() for match in re.finditer(r"[-=─]+", block[rulers[0]])]
        spans = list(zip(starts, [*starts[1:], None], strict=True))
        first, end = (rulers[0], rulers[-1]) if len(rulers) > 1 else (max(rulers[0] - 1, 0), len(block))
        rows = [
            [line[a:b].replace("\\-", "-") for a, b in spans] for line in block[first:end] if not _RULER.fullmatch(line)
        ]
    else:
        rows = [re.split(r"\s{2,}", line.strip()) for line in block]
        first = next(number for number, row in enumerate(rows) if len(row) == len(rows[-1]))
        rows = rows[first:]
    is_code = any(line.rstrip().endswith((";", "{", "}")) for line in block)
    is_table = not is_code and len(rows) > 1 and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
    return [*block[:first], "", *_barred(rows)] if is_table else block


def _piped(lines: Sequence[str]) -> Iterator[RawTable]:
    """Yield tables with bars between their cells, with or without bars outside, under a line that ends their heads."""
    title: str | None = None
    before: list[str] = []
    block: list[str] = []
    for line in (*lines, ""):
        if "|" in line or (_BORDER.fullmatch(line) and (block or line.strip(" -=─━═"))):
            block.append(line)
            continue
        if (table := _table(block, title, " ".join(before))) is not None:
            yield table
            before = []
        block = []
        if match := _TITLE.fullmatch(line):
            title, before = plain(match[1] or match[2] or ""), []
        elif line.strip():
            before.append(plain(line))


def _table(block: Sequence[str], title: str | None, before: str) -> RawTable | None:
    borders = [bool(_BORDER.fullmatch(line)) for line in block]
    rows = [_cells(line) for line, is_border in zip(block, borders, strict=True) if not is_border]
    is_whole = all(line.strip().startswith("|") for line in block)
    if len(rows) <= 1 or len(rows[0]) <= 1 or not (any(borders) or is_whole):
        return None
    return _raw(rows, title, before)


def _cells(line: str) -> list[str]:
    bare = line.strip()
    bare = bare.removeprefix("|")
    bare = bare[:-1] if bare.endswith("|") and not bare.endswith("\\|") else bare
    return [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", bare)]


def _separated(lines: Sequence[str]) -> list[RawTable]:
    delimiter = max(",;\t", key=lines[0].count) if lines else ","
    rows = [row for row in csv_rows(lines, delimiter) if row]
    return [_raw(rows, None, "")] if len(rows) > 1 and len(rows[0]) > 1 and any(any(row[1:]) for row in rows) else []


def _raw(rows: Sequence[Sequence[str]], title: str | None, before: str) -> RawTable:
    heads, *below = [[plain(cell) for cell in row] for row in rows if len(row) > 1]
    if column_of(heads[0], []) and all(len(row) == len(heads) + 1 and not read_number(row[0]) for row in below):
        heads = ["", *heads]  # the heading of the names is missing
    heads = _distinct(heads)
    full = [row + [""] * (len(heads) - len(row)) for row in below]
    return RawTable(heads, [dict(zip(heads, row, strict=False)) for row in full], title, before)


def _distinct(heads: Sequence[str]) -> list[str]:
    """Return the headings; those that occur more than once are numbered."""
    found: dict[str, int] = {}
    for head in heads:
        found[head] = found.get(head, 0) + 1
    seen: dict[str, int] = {}
    named = []
    for head in heads:
        seen[head] = seen.get(head, 0) + 1
        named.append(head if found[head] == 1 else f"{head} #{seen[head]}".strip())
    return named
