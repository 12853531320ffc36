"""A small server on loopback, and places of generators."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from benchkit.services.placement import ServicePlacement

GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
"""Go's name for the architecture of this machine."""


class Server:
    """The small server, in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("small_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.origin = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.url = f"{self.origin}/"

    def stop(self) -> set[str]:
        """Stop it, and return the lines that it printed for `echo` and `count`."""
        printed, _ = self.process.communicate(timeout=10)
        return set(printed.splitlines())


@pytest.fixture
def server() -> Iterator[Server]:
    """The small server, started for one test."""
    running = Server()
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.stop()


@pytest.fixture
def url(server: Server) -> str:
    """URL of the small server."""
    return server.url


def place(host: str, **fields: Any) -> ServicePlacement:  # noqa: ANN401 - fields of ServicePlacement
    """Return a Linux host with two CPUs as the place of a generator, with these fields replaced."""
    default = ServicePlacement(
        host=host,
        address="10.0.0.9",
        cpus=(2, 3),
        folder=PurePosixPath("/w/tools"),
        user="bench",
        root=False,
        goos="linux",
        goarch="amd64",
        nofile=4096,
        programs={},
    )
    return replace(default, **fields)
