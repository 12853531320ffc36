"""Fixtures and hooks of all tests: a lab for the whole session, and the order of test files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from benchkit.lab.choice import remove_abandoned
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabSpec

settings.register_profile("benchkit", deadline=None)  # a busy machine is no failure
settings.load_profile("benchkit")

pytest_plugins = ("tests.browser",)

V8_LOGS = "isolate-*-v8.log"
"""Logs that node writes into its working directory with a map for perf."""
LONGEST = ("cli/test_go_modules.py", "faults/test_faults.py", "cli/test_run.py", "test_readme.py", "test_wheel.py")
"""Files that take a minute and more: they run first, so that no worker ends long after the others."""


def pytest_sessionstart() -> None:
    """Let SIGINT raise KeyboardInterrupt, although a shell that starts tests in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, in the same order for every worker."""
    rank = {Path(__file__).parent / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session", autouse=True)
def clean_checkout() -> Iterator[None]:
    """Check that tests leave no log of V8 in the folder that they are started in, which is the checkout."""
    before = set(Path.cwd().glob(V8_LOGS))
    yield
    assert set(Path.cwd().glob(V8_LOGS)) <= before, (
        "node was started in the checkout: give it another working directory"
    )


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of one `sut` and one `load` for the session; tests leave its hosts unchanged."""
    remove_abandoned()  # of killed sessions
    made = up(LabSpec(name=f"pytest-{os.getpid()}"), temporary=True)
    try:
        yield made
    finally:
        down(made.name)
