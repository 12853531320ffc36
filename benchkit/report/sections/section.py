"""The shape of every section of a report; `benchkit.report.sections.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.report.rendering import Drawing
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table


@dataclass(frozen=True)
class Material:
    """The run of a part of a page, and its drawn figures."""

    run: StoredRun
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class TableContent:
    """Content of a section that is one table."""

    table: Table


@dataclass(frozen=True)
class Section:
    """A section: `build` returns what its template shows, a dataclass of its own; None if there is nothing to show."""

    name: str
    title: str
    template: str
    build: Callable[[Material], object | None] = field(repr=False)
