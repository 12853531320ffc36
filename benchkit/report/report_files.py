"""Files of a report: each is written whole or not at all, the page last."""

from __future__ import annotations

import logging
from pathlib import Path

from benchkit.errors import BenchkitError
from benchkit.registry import describe_failure
from benchkit.report.figure import Drawing, draw_figure
from benchkit.report.figures.registry import FIGURES
from benchkit.report.page import page
from benchkit.report.stored_run import StoredRun
from benchkit.store.durable_files import write_atomically

logger = logging.getLogger(__name__)


def write_report(run: StoredRun, directory: Path) -> Path:
    """Write `report.html` and `figures/<name>.svg|png` into a directory, whose parent exists; return the page's path.

    The same run gives the same bytes. Raises BenchkitError if a file cannot be written.
    """
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise _write_error(directory, error) from error
    drawings = draw_figures(run)
    for drawing in drawings:
        write_file(directory / "figures" / f"{drawing.name}.svg", drawing.svg)
        write_file(directory / "figures" / f"{drawing.name}.png", drawing.png)
    path = directory / "report.html"
    write_file(path, page(run, drawings).encode())
    return path


def draw_figures(run: StoredRun) -> list[Drawing]:
    """Draw the figures that the run has data for, in the order of the report; failing ones of plugins are omitted."""
    drawings = []
    for figure in FIGURES.values():
        try:
            drawing = draw_figure(figure, run)
        except Exception as error:
            plugin = FIGURES.plugin(figure.name)
            if plugin is None:
                raise
            logger.warning("the figure %s of %s failed: %s", figure.name, plugin.package, describe_failure(error))
        else:
            drawings += [drawing] if drawing is not None else []
    return drawings


def write_file(path: Path, content: bytes) -> None:
    """Write all of a file, or leave it as it was. Raises BenchkitError.

    Its folder is created, but no parent of it, which may belong to a run that is removed meanwhile.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> BenchkitError:
    hint = "name another folder with --out"
    return BenchkitError("cannot write the report", where=str(path), why=error.strerror, hint=hint)
