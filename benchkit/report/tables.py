"""Tables of a report: columns with their unit, rows of entries that know what they sort by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from benchkit.units import ABSENT


@dataclass(frozen=True)
class Column:
    """A column; `unit` is that of the exact values behind the texts, `group` a heading over neighbours.

    Numbers stand on the right; a name is what the row is called; prose may take several lines.
    """

    title: str
    kind: Literal["number", "name", "text", "prose"] = "text"
    group: str = ""
    unit: str = ""


class Entry(NamedTuple):
    """A place in a table: the text that people read, and what it sorts by where that is not the text.

    A run has a hundred thousand of them; a tuple is made in a third of the time of a frozen dataclass.
    """

    text: str
    value: float | None = None

    @property
    def exact(self) -> str | None:
        """The value where the text does not say it exactly; seven digits, more than any of these is known to."""
        if self.value is None or (self.value.is_integer() and self.text.replace(",", "") == f"{self.value:.0f}"):
            return None
        return f"{self.value:.7g}"


@dataclass(frozen=True)
class Group:
    """A heading over `span` columns; empty over columns that belong to none."""

    title: str
    span: int


@dataclass(frozen=True)
class Table:
    """A table with what it is called; `name` is unique in a report."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The headings over the columns; none where no column has one."""
        found: list[Group] = []
        for column in self.columns:
            if found and found[-1].title == column.group:
                found[-1] = Group(column.group, found[-1].span + 1)
            else:
                found.append(Group(column.group, 1))
        return tuple(found) if any(group.title for group in found) else ()


def number(value: float, text: Callable[[float], str]) -> Entry:
    """A number as an entry: written for people, sorted by its value; NaN is absent."""
    return Entry(ABSENT) if math.isnan(value) else Entry(text(value), value)
