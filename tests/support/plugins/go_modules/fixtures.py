"""Fixtures for the module services: a place to render them for, and a state folder for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from benchkit.services.controller_files import STATE_ENVIRONMENT
from benchkit.services.placement import HostProgram, ServicePlacement

PROGRAMS = {
    "go": HostProgram("/usr/local/go/bin/go", (1, 26, 8)),
    "git": HostProgram("/usr/bin/git", (2, 39, 5)),
    "ssh": HostProgram("/usr/bin/ssh", (9, 2)),
    "sshd": HostProgram("/usr/sbin/sshd", (9, 2)),
    "nginx": HostProgram("/usr/sbin/nginx", (1, 22, 1), version_output="nginx version: nginx/1.22.1"),
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State folder of the test, with its secrets."""
    folder = tmp_path / "state"
    monkeypatch.setenv(STATE_ENVIRONMENT, str(folder))
    return folder


@pytest.fixture
def place() -> Callable[..., ServicePlacement]:
    """Function that gives a place on a host with two cores."""

    def make(
        name: str, folder: str | Path = "/w/stack/cell", *, address: str = "10.0.0.1", root: bool = False
    ) -> ServicePlacement:
        return ServicePlacement(
            host="one",
            address=address,
            cpus=(0, 1),
            folder=PurePosixPath(folder) / name,
            user="root" if root else "bench",
            root=root,
            goos="linux",
            goarch="amd64",
            nofile=1024,
            programs=PROGRAMS,
        )

    return make
