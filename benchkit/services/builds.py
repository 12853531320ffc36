"""Builds for services by a command of the scenario, on the controller; `images` and `go_build` have the other ways.

Each process runs a scenario's command once, since only the command knows what its result depends on; a version in git
is built once for all. The result is kept by its content: two builds with the same bytes share one folder.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.errors import BenchkitError
from benchkit.services.controller_files import cache_folder, cached, content_sha256, files_below
from benchkit.services.git_source import GitState, checked_out
from benchkit.services.go_build import GoSource
from benchkit.services.service import ControllerFile, Service, ServiceFile
from benchkit.services.templates import fill_in

BUILD_TIMEOUT_S = 900.0
"""Enough for a first build on a slow machine."""
VERSION_TIMEOUT_S = 10.0
FORMAT = 2
"""Part of each key. Increase it when the way of building changes."""
LAST_LINES = 20
"""Lines of a failed build that its message quotes."""

_COMPILER_SETTING = re.compile(r"(GO|CGO_|CARGO|RUST)\w*|C|CC|CXX|CPP|(C|CXX|CPP|LD)FLAGS")
"""Variables of the environment that change what compilers make."""

progress_logger = logging.getLogger(f"{__name__}.progress")
"""Messages for users who wait; the command line shows them without any option."""


@dataclass(frozen=True)
class BuildOutput:
    """The result of a build, and its hash."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Built(ControllerFile):
    """A build that the scenario describes: a folder of files, or the archive of an image."""

    def read(self) -> Path:
        """Return the file or folder; build it first. Raises BenchkitError."""
        return self.build().path

    @property
    @abstractmethod
    def source(self) -> GitState | None:
        """The version that it is built from; None: the files as they are."""

    @abstractmethod
    def build(self) -> BuildOutput:
        """Build it, once in a process. Raises BenchkitError with the last lines that the build printed."""


@dataclass(frozen=True)
class BuiltFolder(Built):
    """The files that a command writes to its folder `{out}`, when it runs in `folder` for a platform."""

    argv: tuple[str, ...]
    folder: Path
    """Absolute, or with a `source` relative to the checkout."""
    goos: str
    goarch: str
    source: GitState | None = None
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables of the command, which override this process's, GOOS and GOARCH."""

    def build(self) -> BuildOutput:
        """Build it, once in a process. Raises BenchkitError with the last lines of what the command printed."""
        return _build(self)

    def __str__(self) -> str:
        """Return the command in backticks, as a shell would take it, with its ref."""
        words = [*(f"{name}={shlex.quote(value)}" for name, value in self.env), shlex.join(self.argv)]
        return f"`{' '.join(words)}`" + (f" at {self.source.ref}" if self.source else "")


def builds_of(service: Service) -> list[Built]:
    """Return what is built for a service as the scenario says."""
    return [file.content for file in service.files if isinstance(file.content, Built)]


def unused_build(built: BuiltFolder, service: Service) -> tuple[str, str] | None:
    """Return the option that keeps a service from starting what was built, and why; None: it starts what was built.

    Raises BenchkitError where it does not build.
    """
    output = built.read()
    files = [path.relative_to(output) for path in files_below(output)]
    carried = {file.path for file in service.files}
    twice = next((path for path in files if service.folder / path in carried), None)
    if twice is not None:
        return "files", f"the build writes {twice}, and `files` puts another one in the same place"
    process = service.process
    if any(str(service.folder) in word for word in (*process.argv, *process.env.values())):
        return None
    if process.cwd is None and any(_names_file(word, files) for word in process.argv[1:]):
        return None
    return "run", (
        f"it names nothing that {built} built: every version would start the same program. Write {{out}}/NAME for a "
        "built file, or {out} for their folder, as in `npm --prefix {out} start`"
    )


def _names_file(word: str, files: Iterable[Path]) -> bool:
    """Return True for an argument that names one of these files, a folder or a module: `app.py`, `.`, `app:main`."""
    known = {str(each) for path in files for each in (path, path.with_suffix(""), *path.parents)}
    parts = [part for part in re.split(r"[\s=:,;]+", word) if part]
    return any(str(Path(name)) in known for part in parts for name in (part, part.replace(".", "/")))


@functools.cache
def _build(wanted: BuiltFolder) -> BuildOutput:
    environment = {"GOOS": wanted.goos, "GOARCH": wanted.goarch, **dict(wanted.env)}
    source = wanted.source
    if source is None:
        progress_logger.warning("building: %s (in %s)", wanted, wanted.folder)
        outputs = cache_folder("builds") / "outputs"
        outputs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=outputs) as scratch:
            made = Path(scratch)
            _run_build(wanted.argv, wanted.folder, environment, made)
            sha256 = content_sha256(made)
            kept = cached(
                outputs / sha256[:32], lambda folder: shutil.copytree(made, folder, symlinks=True, dirs_exist_ok=True)
            )
            return BuildOutput(kept, sha256)

    def make(folder: Path) -> None:
        progress_logger.warning("building: %s", wanted)
        with checked_out(source) as checkout:
            _run_build(wanted.argv, checkout / wanted.folder, environment, folder)

    kept = cached(cache_folder("builds") / "refs" / _key(wanted, source), make)
    return BuildOutput(kept, content_sha256(kept))


def _key(wanted: BuiltFolder, source: GitState) -> str:
    """Return the key of a build in the cache: commit and content, command, platform and toolchain."""
    program = shutil.which(wanted.argv[0]) or wanted.argv[0]
    settings = {name: os.environ[name] for name in sorted(os.environ) if _COMPILER_SETTING.fullmatch(name)}
    parts = [
        *(FORMAT, source.commit, source.tree, wanted.argv, str(wanted.folder), wanted.goos, wanted.goarch),
        *(_toolchain(program), settings | dict(wanted.env)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _toolchain(program: str) -> str:
    """Return the version that the first word of a build prints; its file's time where it prints none."""
    option = "version" if Path(program).name == "go" else "--version"
    try:
        environment = {**os.environ, "GOTOOLCHAIN": "local"}
        done = subprocess.run(
            [program, option],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=VERSION_TIMEOUT_S,
        )
        changed = Path(program).stat().st_mtime_ns
    except (OSError, subprocess.TimeoutExpired):  # the build reports that, with its own words
        return program
    return done.stdout.decode(errors="replace") if done.returncode == 0 else f"{program} {changed}"


def _run_build(argv: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path) -> None:
    """Run a build in `folder`, with variables added to the environment; it writes to `out`, its folder `{out}`.

    It runs in a session of its own, so that its whole group can be killed. Raises BenchkitError with the last lines
    that it printed, and where it leaves no file.
    """
    command = [fill_in(word, {"out": str(out)}) for word in argv]
    # Without a commit in them, equal sources give equal Go programs.
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "GOFLAGS": flags, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        # For a missing program the kernel says "permission denied" where a folder of the PATH is not readable.
        is_missing = os.sep not in argv[0] and shutil.which(argv[0]) is None
        why = "it is not on the PATH" if is_missing else error.strerror
        raise BenchkitError(f"cannot run the build `{argv[0]}`", where=str(folder), why=why) from None
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
        raise BenchkitError(f"the build `{shlex.join(command)}` failed", where=str(folder), why=why)
    if not files_below(out):
        raise BenchkitError(f"the build `{shlex.join(argv)}` left no file", hint="let it write to the folder {out}")


@dataclass(frozen=True)
class Build:
    """A program that the controller builds, and the hosts that get it."""

    program: str
    target: str
    """`linux/amd64`."""
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line such as `vegeta for linux/amd64 (load1, load2)`."""
        return f"{self.program} for {self.target} ({', '.join(self.hosts)})"


def list_builds(files: Iterable[tuple[str, ServiceFile]]) -> tuple[Build, ...]:
    """Return the programs among the files of hosts, each once for a target, in order of first use."""
    hosts_of: dict[tuple[str, str], dict[str, None]] = {}
    for host, file in files:
        content = file.content
        if isinstance(content, GoSource | BuiltFolder):
            program = content.program if isinstance(content, GoSource) else str(content)
            hosts_of.setdefault((program, f"{content.goos}/{content.goarch}"), {})[host] = None
    return tuple(Build(program, target, tuple(hosts)) for (program, target), hosts in hosts_of.items())
