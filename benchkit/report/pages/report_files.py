"""Files of a report, each written whole or not at all, the page last."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from benchkit.errors import BenchkitError
from benchkit.registry import describe_failure
from benchkit.report.figures.registry import FIGURES
from benchkit.report.pages.page import page
from benchkit.report.rendering import Drawing, render
from benchkit.report.stored_run import StoredRun

logger = logging.getLogger(__name__)


def write_report(run: StoredRun, directory: Path, *others: StoredRun) -> Path:
    """Write `report.html` and `figures/<name>.svg|png` into a directory, whose parent exists; return the page's path.

    `others` are further runs on the same page; their figures go to `figures/<run_id>/`. The same runs give the same
    bytes. Raises BenchkitError if a file cannot be written.
    """
    make_folder(directory)
    parts = []
    for each in (run, *others):
        folder = directory / "figures" / ("" if each is run else each.manifest.run_id)
        drawings = draw_figures(each)
        if drawings:
            make_folder(directory / "figures")
        for drawing in drawings:
            write_file(folder / f"{drawing.figure.name}.svg", drawing.svg)
            write_file(folder / f"{drawing.figure.name}.png", drawing.png)
        parts.append((each, drawings))
    path = directory / "report.html"
    write_file(path, page(*parts).encode())
    return path


def draw_figures(run: StoredRun) -> list[Drawing]:
    """Draw the figures that the run has data for, in the order of the report; one of a plugin that fails is omitted."""
    drawings = []
    for figure in FIGURES.values():
        try:
            if figure.is_available(run):
                drawings.append(render(figure, run))
        except Exception as error:
            plugin = FIGURES.plugin(figure.name)
            if plugin is None:
                raise
            logger.warning("the figure %s of %s failed: %s", figure.name, plugin.package, describe_failure(error))
    return drawings


def write_file(path: Path, content: bytes) -> None:
    """Write a file: it gets all of its content, or stays as it was. Raises BenchkitError.

    Its folder is created, but not the parents of that: they may belong to a run that is removed meanwhile.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(path, error) from error


def make_folder(path: Path) -> None:
    """Create a folder where there is none; its parent must exist. Raises BenchkitError."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> BenchkitError:
    """Return the error for a file of the report that cannot be written."""
    hint = "name another folder with --out"
    return BenchkitError("cannot write the report", where=str(path), why=error.strerror, hint=hint)
