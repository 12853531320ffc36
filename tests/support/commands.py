"""The real command line, each command in a process of its own that need not import everything.

Most of the time of a short command is the import of pandas, matplotlib and Fabric. A server imports them once and forks
for each command (multiprocessing's forkserver); from there on it is what the installed program does. The tests of
signals, of terminals and of whole installations start that program itself.
"""

from __future__ import annotations

import importlib
import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

import pytest

_TIMEOUT_S = 600
"""Longest time of a command: on a busy machine with a cold cache it builds servers."""
_IMPORTED = (
    "benchkit.cli.app",
    "benchkit.run.run",
    "benchkit.explore",
    "benchkit.hosts.connections",
    "benchkit.lab.lab",
    "benchkit.plan.planner",
    "benchkit.report.report_files",
    "benchkit.run.deployment",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "pyarrow.parquet",
    "rich.live",
    "rich.table",
    "scipy.stats",
)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(_IMPORTED))


class Done(NamedTuple):
    """A command that has ended."""

    code: int | None
    out: str
    err: str


def command(
    *arguments: str,
    environment: Mapping[str, str],
    stdin: str = "",
    constants: Mapping[str, object] = MappingProxyType({}),
) -> Done:
    """Run `benchkit` with these arguments, in this environment and the present folder, without a terminal.

    `constants` are constants of benchkit, `module:NAME`, with the values that they have in the command.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        streams = [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (given, out, err)]
        process = _context.Process(
            target=_main, args=(arguments, dict(environment), str(Path.cwd()), streams, dict(constants))
        )
        process.start()
        process.join(_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()
            pytest.fail(f"benchkit {' '.join(arguments)} did not end within {_TIMEOUT_S} s: {_content(err)}")
        return Done(process.exitcode, _content(out), _content(err))


def _content(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _main(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    folder: str,
    streams: list[str],
    constants: dict[str, object],
) -> None:
    """Replace streams, environment and folder of this process as a shell would, and run the command."""
    for fd, (path, mode) in enumerate(zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(path, mode | os.O_APPEND * (mode == os.O_WRONLY)), fd)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), line_buffering=True)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["benchkit", *arguments]
    for place, value in constants.items():
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, value)

    from benchkit.cli.app import main  # noqa: PLC0415 - of the process that runs it

    main()
