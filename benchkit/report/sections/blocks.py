"""The blocks of a section: texts, lists, tables, folded parts, and parts with a template of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from benchkit.report.figure import Drawing
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table


@dataclass(frozen=True)
class Text:
    """A paragraph, a note in small print, or a heading."""

    text: str
    kind: Literal["text", "note", "heading"] = "text"


@dataclass(frozen=True)
class Bullets:
    """A list; numbered if tables refer to its items."""

    items: Sequence[str]
    kind: Literal["bullets", "numbered"] = "bullets"


@dataclass(frozen=True)
class TableBlock:
    """A table."""

    table: Table
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Details:
    """Blocks that are folded behind a summary."""

    summary: str
    blocks: Sequence[Block]
    aside: str = ""
    kind: Literal["details"] = "details"


@dataclass(frozen=True)
class Part:
    """A part with a template of its own, `<name>.html.j2`, and its content."""

    name: str
    content: Mapping[str, object]
    kind: Literal["part"] = "part"


Block: TypeAlias = Text | Bullets | TableBlock | Details | Part


@dataclass(frozen=True)
class ReportInput:
    """A run and its drawn figures, from which sections are built."""

    run: StoredRun
    drawings: tuple[Drawing, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section: `build` yields its blocks; without any it is omitted."""

    name: str
    title: str
    build: Callable[[ReportInput], Iterable[Block]] = field(repr=False)


def note(text: str) -> Text:
    """Return a paragraph in small print that explains the block above it."""
    return Text(text, "note")


def heading(text: str) -> Text:
    """Return a heading within a section."""
    return Text(text, "heading")
