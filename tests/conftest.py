"""Fixtures and hooks of all tests: a lab for the whole session, and the order of test files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchkit.lab.lab import Lab, down, lab_names, up
from benchkit.lab.spec import LabSpec

pytest_plugins = ("tests.browser",)

LONGEST = ("cli/test_go_modules.py", "faults/test_faults.py", "cli/test_run.py", "test_readme.py", "test_wheel.py")
"""Files that take a minute and more: they run first, so that no worker ends long after the others."""

_OURS = re.compile(r"pytest-(?P<pid>[0-9]+)(?:-[a-z0-9-]+)?")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, in the same order for every worker."""
    rank = {Path(__file__).parent / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of one `sut` and one `load` for the session; tests leave its hosts unchanged."""
    for name in lab_names():  # of killed sessions
        match = _OURS.fullmatch(name)
        if match and not psutil.pid_exists(int(match["pid"])):
            down(name)
    made = up(LabSpec(name=f"pytest-{os.getpid()}"))
    try:
        yield made
    finally:
        down(made.name)
