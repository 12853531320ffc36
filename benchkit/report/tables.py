"""Tables of a report: columns with units, and rows of entries with their texts and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from benchkit.units import ABSENT

Kind = Literal["number", "name", "text", "prose"]
"""Kind of a column: numbers are aligned to the right, a name is the head of its row, prose may take several lines."""


@dataclass(frozen=True)
class TableColumn:
    """A column; `unit` is of the exact values behind the texts."""

    title: str
    kind: Kind = "text"
    unit: str = ""


class Entry(NamedTuple):
    """An entry of a table: its text, and its value for sorting if that is not the text.

    A run may have a hundred thousand, and a tuple is created in a third of the time of a frozen dataclass.
    """

    text: str
    value: float | None = None
    kind: Kind = "text"

    @property
    def exact(self) -> str | None:
        """The value with seven digits, more than any measurement has; None if the text states it exactly."""
        if self.value is None or (self.value.is_integer() and self.text.replace(",", "") == f"{self.value:.0f}"):
            return None
        return f"{self.value:.7g}"


@dataclass(frozen=True)
class Table:
    """A table with its caption; `name` is unique in a report."""

    name: str
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Entry, ...], ...]


def table(
    name: str, caption: str, rows: Sequence[Mapping[str, Entry]], units: Mapping[str, str] = MappingProxyType({})
) -> Table:
    """Return a table of rows, which map the titles of the columns to entries; all rows have the same titles.

    A column has the kind of its entries; `units` maps titles of columns to their unit.
    """
    columns = tuple(
        TableColumn(title, entry.kind, units.get(title, "")) for row in rows[:1] for title, entry in row.items()
    )
    return Table(name, caption, columns, tuple(tuple(row[column.title] for column in columns) for row in rows))


def named(text: str, value: float | None = None) -> Entry:
    """Return the heading of a row, sorted by the value if it has one."""
    return Entry(text, value, "name")


def prose(text: str) -> Entry:
    """Return a text that may take several lines."""
    return Entry(text, None, "prose")


def number(value: float | None, text: Callable[[float], str], suffix: str = "") -> Entry:
    """Return a number as an entry, sorted by its value; None and NaN are absent."""
    if value is None or math.isnan(value):
        return Entry(ABSENT, None, "number")
    return Entry(text(value) + suffix, float(value), "number")
