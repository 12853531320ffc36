"""The lab of pairs of servers, with a second role for servers of a smaller quota."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.faults.fault_lab import FaultLab, connected_lab
from tests.support.cli.fixtures import cli, environment

__all__ = ["cli", "environment", "why_lab"]


@pytest.fixture(scope="module")
def why_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultLab]:
    """A lab whose servers have the roles `sut` and `slow`."""
    with why_lab_in(tmp_path_factory.mktemp("why")) as lab:
        yield lab


@contextmanager
def why_lab_in(folder: Path) -> Iterator[FaultLab]:
    """Make that lab, with the store of its runs in a folder, and remove it at the end."""
    hosts = (LabHost(name="sut", roles=("sut", "slow")), LabHost(name="load", roles=("load",)))
    lab = up(LabSpec(name=f"pytest-{os.getpid()}-why", hosts=hosts))
    try:
        with connected_lab(lab, folder) as connected:
            yield connected
    finally:
        down(lab.name)
