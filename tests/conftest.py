"""What tests of several folders share: a lab for the whole session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import psutil
import pytest

from benchkit.lab.lab import Lab, down, names, up
from benchkit.lab.spec import LabSpec

pytest_plugins = ("tests.browser",)

_OURS = re.compile(r"pytest-(?P<pid>[0-9]+)(?:-[a-z0-9-]+)?")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of one `sut` and one `load`, up for the session; tests leave its hosts as they found them."""
    for name in names():  # of sessions that were killed
        match = _OURS.fullmatch(name)
        if match and not psutil.pid_exists(int(match["pid"])):
            down(name)
    made = up(LabSpec(name=f"pytest-{os.getpid()}"))
    try:
        yield made
    finally:
        down(made.name)
