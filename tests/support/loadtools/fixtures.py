"""A small server on loopback, places of generators, and generators that run here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from benchkit.hosts.packages import PROGRAMS
from benchkit.loadtools.generators.generator import Generator, plan_generators
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.text import decode
from benchkit.loadtools.tool import ParsedOutput, Target, ToolOutput
from benchkit.loadtools.trial_result import read_generator
from benchkit.models.load import Load
from benchkit.services.placement import ServicePlacement
from benchkit.services.service import ControllerFile
from tests.support.paths import TESTS

if _oha := os.environ.get("BENCHKIT_OHA"):  # the hosts of a lab get this PATH, too
    os.environ["PATH"] = f"{Path(_oha).parent}{os.pathsep}{os.environ['PATH']}"

GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
"""Go's name for the architecture of this machine."""


class Server:
    """The small server, in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / "support/loadtools/small_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.origin = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.url = f"{self.origin}/"

    def stop(self) -> set[str]:
        """Stop it, and return the lines that it printed for `echo` and `count`."""
        printed, _ = self.process.communicate(timeout=60)
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


PERCENTILES_ONLY = frozenset({"bombardier", "oha"})
"""Tools that print percentiles, and not the time of each request."""

PRINTED = "printed"
"""File with what a tool prints, its rows included."""


def _run_tool(generator: Generator, folder: Path) -> bytes:
    """Run the tool to its end, and return what it prints, from a file as on a host; siege may hang at its end."""
    may_hang = generator.load.tool == "siege" and generator.load.duration_s is not None
    attempts, timeout_s = (5, 15) if may_hang else (1, 60)
    printed = folder / PRINTED
    while True:
        attempts -= 1
        printed.write_bytes(b"")
        with (folder / "stderr").open("wb") as stderr, printed.open("ab") as stdout:
            try:
                subprocess.run(generator.argv, cwd=folder, stdout=stdout, stderr=stderr, timeout=timeout_s, check=True)
            except subprocess.TimeoutExpired:
                if not attempts:
                    raise
            else:
                return printed.read_bytes()


def skip_without(name: str) -> None:
    """Skip the test where neither the PATH has the program of a tool, nor benchkit builds it."""
    tool = TOOLS[name]
    if tool.go_program is None and shutil.which(tool.binary) is None:
        build = PROGRAMS[tool.binary].build
        how = f": `{build}` builds it, and BENCHKIT_{name.upper()} names it" if build else ""
        pytest.skip(f"{tool.binary} is not installed{how}")


def run_generator(load: Load, target: Target, folder: Path) -> ParsedOutput:
    """Run one generator as planned, with its rows read by the reducer, and return its output."""
    tool = TOOLS[load.tool]
    skip_without(load.tool)
    here = place("here", folder=folder, cpus=(0,), nofile=1024, goos=sys.platform, goarch=GOARCH)
    (generator,) = plan_generators(load, target, [here])
    for name, content in generator.files.items():
        (folder / name).write_bytes(content)
    for program in generator.programs:
        assert isinstance(program.content, ControllerFile)
        made = program.content.read()
        if isinstance(made, Path):
            Path(program.path).symlink_to(made)
        else:
            Path(program.path).write_bytes(made)
    printed = _run_tool(generator, folder)
    if generator.reducer is None:
        output = ToolOutput(decode(printed), (folder / "stderr").read_text())
        return read_generator(tool, load, output)
    subprocess.run([*generator.reducer, PRINTED], cwd=folder, timeout=60, check=True)
    text, reduction = (folder / f"{PRINTED}.{suffix}" for suffix in ("txt", "json"))
    output = ToolOutput(text.read_text(), (folder / "stderr").read_text(), reduction.read_bytes())
    return read_generator(tool, load, output)
