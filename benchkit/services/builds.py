"""Servers that a command of the scenario builds on the controller.

Each process runs the command once, since only the command knows what its result depends on; its tools have caches of
their own. The result is kept by its content: two builds with the same bytes share one folder.
"""

from __future__ import annotations

import errno
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchkit.errors import BenchkitError
from benchkit.files import read_regular
from benchkit.services.controller_files import files_below
from benchkit.services.git_source import GitState, checked_out
from benchkit.services.go_build import cache_folder
from benchkit.services.service import ControllerFolder, GoSource, Service, ServiceFile, ServiceFolder
from benchkit.services.templates import fill_in

BUILD_TIMEOUT_S = 900.0
"""Enough for a first build on a slow machine."""
VERSION_TIMEOUT_S = 10.0
FORMAT = 1
"""Part of each key. Increase it when the way of building changes."""
LAST_LINES = 20
"""Lines of a failed build that its message quotes."""

_COMPILER_SETTING = re.compile(r"(GO|CGO_|CARGO|RUST)\w*|C|CC|CXX|CPP|(C|CXX|CPP|LD)FLAGS")
"""Variables of the environment that change what compilers make."""

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
    """Absolute, or with a `source` relative to the checkout."""
    goos: str
    goarch: str
    source: GitState | None = None
    """None: the files of `folder` as they are."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables of the command, which override this process's, GOOS and GOARCH."""

    def read(self) -> Path:
        """Return the folder with what was built; build it first. Raises BenchkitError."""
        return self.build().folder

    def build(self) -> BuildOutput:
        """Build it, once in a process. Raises BenchkitError with the last lines of what the command printed."""
        return _build(self)

    def refusal(self, service: Service) -> tuple[str, str] | None:
        """Return the option that keeps a service from starting what was built, and why; None: it starts what was built.

        Raises BenchkitError where it does not build.
        """
        output = self.read()
        built = [path.relative_to(output) for path in files_below(output)]
        carried = {file.path for file in service.files}
        twice = next((path for path in built if service.folder / path in carried), None)
        if twice is not None:
            return "files", f"the build writes {twice}, and `files` carries another one to the same place"
        process = service.process
        if any(str(service.folder) in word for word in (*process.argv, *process.env.values())):
            return None
        if process.cwd is None and any(_names_file(word, built) for word in process.argv[1:]):
            return None
        return "run", (
            f"it names nothing that {self} built: every version would start the same. Write {{out}}/NAME for a "
            "built file, or {out} for their folder, as in `npm --prefix {out} start`"
        )

    go_version: ClassVar[str | None] = None

    @property
    def program(self) -> str:
        """The command that builds it."""
        return str(self)

    def __str__(self) -> str:
        """Return the command in backticks, as a shell would take it, with its ref."""
        words = [*(f"{name}={shlex.quote(value)}" for name, value in self.env), shlex.join(self.argv)]
        return f"`{' '.join(words)}`" + (f" at {self.source.ref}" if self.source else "")


@functools.cache
def _build(wanted: BuiltFolder) -> BuildOutput:
    environment = {"GOOS": wanted.goos, "GOARCH": wanted.goarch, **dict(wanted.env)}
    if wanted.source is None:
        progress_logger.warning("building: %s (in %s)", wanted, wanted.folder)
        return run_build(wanted.argv, wanted.folder, environment)
    record = cache_folder() / "refs" / f"{_key(wanted, wanted.source)}.json"
    sha256 = recorded(record, "sha256")
    if sha256 is not None and (kept := _output_folder(sha256)).is_dir():
        return BuildOutput(kept, sha256)
    progress_logger.warning("building: %s", wanted)
    with checked_out(wanted.source) as checkout:
        built = run_build(wanted.argv, checkout / wanted.folder, environment)
    record.parent.mkdir(parents=True, exist_ok=True)
    temporary = record.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"sha256": built.sha256}), encoding="utf-8")
    temporary.replace(record)
    return built


def _names_file(word: str, files: Iterable[Path]) -> bool:
    """Return True for an argument that names one of these files, a folder or a module: `app.py`, `.`, `app:main`."""
    known = {str(each) for path in files for each in (path, path.with_suffix(""), *path.parents)}
    parts = [part for part in re.split(r"[\s=:,;]+", word) if part]
    return any(str(Path(name)) in known for part in parts for name in (part, part.replace(".", "/")))


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


def recorded(file: Path, name: str) -> str | None:
    """Return a value in a record of the cache; None where there is no complete record."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))[name])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _output_folder(sha256: str) -> Path:
    return cache_folder() / "outputs" / sha256[:32]


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
        # Without a commit in them, equal sources give equal Go programs.
        flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
        _run(command, folder, {**os.environ, "GOFLAGS": flags, **environment})
        return _keep(out, shlex.join(argv))


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
        # Where a folder on the PATH is not readable, the kernel reports "permission denied" for a missing program.
        is_missing = os.sep not in argv[0] and shutil.which(argv[0]) is None
        why = os.strerror(errno.ENOENT) if is_missing else error.strerror
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
        raise BenchkitError(f"the build `{shlex.join(argv)}` failed", where=str(folder), why=why)


def _keep(out: Path, command: str) -> BuildOutput:
    """Move what was built to the folder named by its hash, unless that folder exists already."""
    digest = hashlib.sha256()
    files = files_below(out)
    if not files:
        raise BenchkitError(f"the build `{command}` left no file", hint="let it write to the folder {out}")
    for path in files:
        content = read_regular(path)
        is_executable = bool(path.stat().st_mode & 0o111)
        digest.update(json.dumps([path.relative_to(out).as_posix(), is_executable, len(content)]).encode())
        digest.update(content)
    sha256 = digest.hexdigest()
    kept = _output_folder(sha256)
    if not kept.is_dir():
        try:
            out.rename(kept)
        except OSError as error:  # another process was faster, or the folder cannot be written
            if not kept.is_dir():
                raise BenchkitError("cannot store a build", where=str(kept), why=error.strerror) from None
    return BuildOutput(kept, sha256)


@dataclass(frozen=True)
class Build:
    """A program that the controller builds, and the hosts that get it."""

    program: str
    target: str
    """`linux/amd64`."""
    go_version: str | None
    """None: the release that its module pins."""
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line such as `vegeta for linux/amd64 (load1, load2)`."""
        go = f" with Go {self.go_version}" if self.go_version else ""
        return f"{self.program} for {self.target}{go} ({', '.join(self.hosts)})"


def list_builds(files: Iterable[tuple[str, ServiceFile | ServiceFolder]]) -> tuple[Build, ...]:
    """Return the programs among the files of hosts, each once for a target, in order of first use."""
    hosts_of: dict[GoSource | BuiltFolder, list[str]] = {}
    for host, file in files:
        if isinstance(file.content, GoSource | BuiltFolder):
            hosts = hosts_of.setdefault(file.content, [])
            if host not in hosts:
                hosts.append(host)
    return tuple(
        Build(source.program, f"{source.goos}/{source.goarch}", source.go_version, tuple(hosts))
        for source, hosts in hosts_of.items()
    )
