"""The way from `benchkit run quickstart` to a stored trial, as somebody reads it: few files, one below the other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType

from typer.testing import CliRunner

from benchkit.cli.app import app
from benchkit.files import PACKAGE
from benchkit.lab.lab import Lab

MOST_FILES = 35
"""Limit of what a reader walks through."""

WORK = {
    "scenario/read.py": "read_experiment",
    "hosts/connections.py": "connect_all",
    "plan/planner.py": "make_plan",
    "hosts/processes.py": "run_timetable",
    "loadtools/trial_result.py": "read_generator",
    "judge/verdicts.py": "judge_trial",
    "store/parquet_files.py": "write_parquet",
}
"""Functions in which a run does its work, by their files; the steps of a block are added to them."""


@cache
def _in_package(name: str) -> str | None:
    """Return the path of a file from the package's folder; None for one outside."""
    path = Path(name)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def _files_above(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if (file := _in_package(frame.f_code.co_filename)) is not None:
            yield file
        frame = frame.f_back


def test_the_main_line_of_a_run_has_few_files(lab: Lab, tmp_path: Path) -> None:
    """Count the files of all functions on the stack where the work is done: what they call beside it is not walked."""
    done: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (file := _in_package(frame.f_code.co_filename)) is None:
            return
        caller = frame.f_back and _in_package(frame.f_back.f_code.co_filename)
        is_step = file.startswith("run/steps/") and caller == "run/block.py"
        if is_step or WORK.get(file) == frame.f_code.co_name:
            done.setdefault(file, set()).update(_files_above(frame))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        CliRunner().invoke(
            app,
            [
                *("run", "quickstart", "--scale", "smoke", "--set", "blocks=1"),
                *("--lab", lab.name, "--store", str(tmp_path), "--json"),
            ],
            catch_exceptions=False,
        )
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.keys() >= WORK.keys()
    walked = set().union(*done.values())
    assert "run/steps/load.py" in walked
    assert len(walked) <= MOST_FILES, sorted(walked)
