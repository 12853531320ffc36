"""Fixtures and hooks of all tests: a lab for the whole session."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchkit.lab.choice import remove_abandoned
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabSpec

# A busy machine is no failure, and the same examples are tried each time.
settings.register_profile("benchkit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("benchkit")

pytest_plugins = ("tests.support.browser", "tests.support.snapshots")

V8_LOGS = "isolate-*-v8.log"
"""Logs that node writes into its working directory with a map for perf."""


def pytest_sessionstart() -> None:
    """Let SIGINT raise KeyboardInterrupt, and lab hosts find this Python first.

    A shell that starts tests in the background has SIGINT ignored. On PATH `python3` may be a version manager's script,
    which takes twice as long as Python itself; lab hosts start one for every connection.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folders = [str(Path(sys.executable).resolve().parent), os.environ.get("PATH", os.defpath)]
    os.environ["PATH"] = os.pathsep.join(folders)


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
