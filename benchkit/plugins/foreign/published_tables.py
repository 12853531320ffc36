"""Tables in texts: CSV, and Markdown or drawn tables between other text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchkit.loadtools.text import csv_rows
from benchkit.plugins.foreign.published_numbers import plain

_BORDER = re.compile(r"[\s|+:=\-─━│┃┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬═║╞╪╡]*[-=─━═]{1,}[\s|+:=\-─━│┃┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬═║╞╪╡]*")
_DRAWN = str.maketrans("│┃║", "|||")
_TITLE = re.compile(r"\s*#{1,6}\s+(.*?)\s*#*\s*|\s*\*\*(.+?)\*\*:?\s*")


@dataclass(frozen=True)
class RawTable:
    """A table as it stands in a text; its cells are plain."""

    heads: Sequence[str]
    rows: Sequence[Mapping[str, str]]
    title: str | None = None
    """Heading above it."""
    before: str = ""
    """Text between the heading, or the table before, and this one; all text around it where it is the only one."""


def tables_of(text: str) -> list[RawTable]:
    """Return the tables of a text; empty where it has none."""
    lines = text.translate(_DRAWN).splitlines()
    tables = list(_piped(lines))
    if len(tables) == 1:  # what stands below a table may say its unit, too
        around = " ".join(
            plain(line) for line in lines if "|" not in line and line.strip() and not _TITLE.fullmatch(line)
        )
        tables = [replace(tables[0], before=around)]
    return tables or _separated([line.strip() for line in lines if line.strip()])


def _piped(lines: Sequence[str]) -> Iterator[RawTable]:
    """Yield tables with bars between their cells, with or without bars outside, under a line that ends their heads."""
    title: str | None = None
    before: list[str] = []
    block: list[str] = []
    for line in (*lines, ""):
        if "|" in line or (_BORDER.fullmatch(line) and line.strip(" -=─━═")):
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
    return [_raw(rows, None, "")] if len(rows) > 1 and len(rows[0]) > 1 else []


def _raw(rows: Sequence[Sequence[str]], title: str | None, before: str) -> RawTable:
    heads = _distinct([plain(head) for head in rows[0]])
    short = [[plain(cell) for cell in row] + [""] * (len(heads) - len(row)) for row in rows[1:] if len(row) > 1]
    return RawTable(heads, [dict(zip(heads, row, strict=False)) for row in short], title, before)


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
