"""The shape that every section of a report has; `benchkit.report.sections.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchkit.report.rendering import Drawing
from benchkit.report.stored_run import StoredRun


@dataclass(frozen=True)
class Material:
    """What sections are made from."""

    run: StoredRun
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class Section:
    """A part of the report: `build` gives what its template shows, or `None` where there is nothing to say."""

    name: str
    title: str
    template: str
    build: Callable[[Material], Mapping[str, Any] | None] = field(repr=False)
