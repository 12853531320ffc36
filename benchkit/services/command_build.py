"""Servers that a command of the scenario builds on the controller.

The command runs once in each process, since only it knows what its result depends on; its own tools have caches. The
result is kept by its content: two builds with the same bytes are one folder.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.errors import BenchkitError
from benchkit.services.carried_files import files_below
from benchkit.services.command_line import fill_in
from benchkit.services.go_build import cache_folder
from benchkit.services.service import ControllerFolder

BUILD_TIMEOUT_S = 900.0
"""Enough for a first build on a slow machine."""
LAST_LINES = 20
"""Lines of a failed build that its message quotes."""

progress_logger = logging.getLogger(f"{__name__}.progress")
"""Messages for users who wait; the command line shows them without any option."""


@dataclass(frozen=True)
class BuildOutput:
    """The files that a build left, and the hash over their names, modes and contents."""

    folder: Path
    sha256: str


@dataclass(frozen=True)
class BuiltFolder(ControllerFolder):
    """The files that a command writes to its folder `{out}`, when it runs in `folder` for a platform."""

    argv: tuple[str, ...]
    folder: Path
    goos: str
    goarch: str

    def read(self) -> Path:
        """Return the folder with what was built; build it first. Raises BenchkitError."""
        return self.build().folder

    def build(self) -> BuildOutput:
        """Build it, once in a process. Raises BenchkitError with the last lines of what the command printed."""
        return _build(self)

    def __str__(self) -> str:
        """Return the command."""
        return shlex.join(self.argv)


@functools.cache
def _build(wanted: BuiltFolder) -> BuildOutput:
    progress_logger.warning("building: %s (in %s)", wanted, wanted.folder)
    return run_build(wanted.argv, wanted.folder, {"GOOS": wanted.goos, "GOARCH": wanted.goarch})


def run_build(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> BuildOutput:
    """Run a build in `folder`, with variables added to the environment, and keep what it writes to `{out}`.

    Raises BenchkitError with the last lines that the command printed, and where it leaves no file.
    """
    outputs = cache_folder() / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=outputs) as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        command = [fill_in(word, {"out": str(out)}) for word in argv]
        _run(command, folder, {**os.environ, **environment, "GOFLAGS": _without_vcs_stamp()})
        return _keep(out, outputs, shlex.join(argv))


def _without_vcs_stamp() -> str:
    """Return GOFLAGS with which `go build` writes no commit into a program: equal sources give equal programs."""
    return f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()


def _run(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command in a session of its own, so that its whole group can be killed. Raises BenchkitError."""
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BenchkitError(f"cannot run the build `{argv[0]}`", where=str(folder), why=error.strerror) from None
    with process:
        try:
            output, _ = process.communicate(timeout=BUILD_TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                what = f"the build `{argv[0]}` did not end within {BUILD_TIMEOUT_S:g} s"
                raise BenchkitError(what, where=str(folder)) from None
            raise
    if process.returncode != 0:
        lines = output.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        ended = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        why = "\n    ".join([f"{ended}:", *lines]) if lines else ended
        raise BenchkitError(f"the build `{shlex.join(argv)}` failed", where=str(folder), why=why)


def _keep(out: Path, outputs: Path, command: str) -> BuildOutput:
    """Move what was built to the folder named by its hash, unless the same is there already."""
    digest = hashlib.sha256()
    files = files_below(out)
    if not files:
        raise BenchkitError(f"the build `{command}` left no file", hint="let it write to the folder {out}")
    for path in files:
        content = path.read_bytes()
        is_executable = bool(path.stat().st_mode & 0o111)
        digest.update(json.dumps([path.relative_to(out).as_posix(), is_executable, len(content)]).encode())
        digest.update(content)
    sha256 = digest.hexdigest()
    kept = outputs / sha256[:32]
    if not kept.is_dir():
        try:
            out.rename(kept)
        except OSError as error:  # another process was faster, or the folder cannot be written
            if not kept.is_dir():
                raise BenchkitError("cannot store a build", where=str(kept), why=error.strerror) from None
    return BuildOutput(kept, sha256)
