"""Tables of a report: columns with units, rows of entries with text and sorting value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from benchkit.units import ABSENT


@dataclass(frozen=True)
class TableColumn:
    """A column; `unit` is that of the exact values behind the texts, `group` a heading over neighbouring columns.

    Numbers are aligned to the right; a name is the heading of its row; prose may take several lines.
    """

    title: str
    kind: Literal["number", "name", "text", "prose"] = "text"
    group: str = ""
    unit: str = ""


class Entry(NamedTuple):
    """An entry of a table: its text, and the value that it sorts by if that is not the text.

    A run has a hundred thousand of them; creating a tuple takes a third of the time of a frozen dataclass.
    """

    text: str
    value: float | None = None

    @property
    def exact(self) -> str | None:
        """The value with seven digits, more than any is accurate to; None if the text has it exactly."""
        if self.value is None or (self.value.is_integer() and self.text.replace(",", "") == f"{self.value:.0f}"):
            return None
        return f"{self.value:.7g}"


@dataclass(frozen=True)
class ColumnGroup:
    """A heading over `span` columns; empty over columns without a group."""

    title: str
    span: int


@dataclass(frozen=True)
class Table:
    """A table with its caption; `name` is unique in a report."""

    name: str
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Entry, ...], ...]

    @property
    def groups(self) -> tuple[ColumnGroup, ...]:
        """Headings over the columns; none if no column has one."""
        groups: list[ColumnGroup] = []
        for column in self.columns:
            if groups and groups[-1].title == column.group:
                groups[-1] = ColumnGroup(column.group, groups[-1].span + 1)
            else:
                groups.append(ColumnGroup(column.group, 1))
        return tuple(groups) if any(group.title for group in groups) else ()


def number(value: float, text: Callable[[float], str]) -> Entry:
    """Return a number as an entry, sorted by its value; NaN is absent."""
    return Entry(ABSENT) if math.isnan(value) else Entry(text(value), value)
