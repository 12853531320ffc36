"""psutil for hosts that have none: the controller's own copy where it fits, else the wheel that pip gets for them."""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PIP_S = 60
_TAG = re.compile(r"cp36-abi3-manylinux_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>\w+)")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """A zip with psutil in it, or why there is none, for people."""

    content: bytes | None
    why_not: str | None = None


def psutil_for(machine: str, glibc: str | None, python: str) -> Archive:
    """A psutil for a Linux host: its architecture, its glibc (None: another C library) and its Python, as in its facts."""
    try:
        own = importlib.metadata.distribution("psutil")
    except importlib.metadata.PackageNotFoundError:
        return Archive(None, "the controller has no psutil itself")
    if fits(own.read_text("WHEEL") or "", machine, glibc):
        return Archive(_packed(own))
    return _downloaded(own.version, machine, glibc, python)


def fits(wheel: str, machine: str, glibc: str | None) -> bool:
    """Whether a package with this WHEEL file runs on such a host: stable ABI, same architecture, glibc not older. Pure."""
    if glibc is None:
        return False
    tags = [match for match in map(_TAG.search, wheel.splitlines()) if match and match["machine"] == machine]
    return any((int(tag["major"]), int(tag["minor"])) <= _numbers(glibc) for tag in tags)


def download_command(version: str, machine: str, glibc: str | None, python: str, folder: Path) -> list[str]:
    """How pip is asked for the wheel of another platform, without running any of the package's code. Pure."""
    if glibc is None:
        platforms = ["musllinux_1_1", "musllinux_1_2"]
    else:
        platforms = ["manylinux2010", "manylinux_2_12", "manylinux2014", "manylinux_2_17"]
        platforms += ["manylinux_2_28"] if _numbers(glibc) >= (2, 28) else []
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--retries", "1", "--timeout", "10", "--only-binary=:all:", "--no-deps", "--dest", str(folder)),
        *(part for platform in platforms for part in ("--platform", f"{platform}_{machine}")),
        *("--implementation", "cp", "--abi", "abi3", "--python-version", ".".join(python.split(".")[:2])),
        f"psutil=={version}",
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


@cache
def _packed(own: importlib.metadata.Distribution) -> bytes:
    """The installed package as an archive, the same bytes each time."""
    files = [file for file in own.files or () if file.parts[0] == "psutil" and file.suffix in (".py", ".so")]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(files):
            archive.writestr(zipfile.ZipInfo(file.as_posix(), _LONG_AGO), file.read_binary(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _downloaded(version: str, machine: str, glibc: str | None, python: str) -> Archive:
    """The wheel out of the cache folder, where pip puts it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "benchkit" / "psutil"
    folder = cache / f"{version}-{machine}-{'musl' if glibc is None else 'glibc'}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as part:
            command = download_command(version, machine, glibc, python, Path(part) / "wheel")
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=PIP_S, check=False)
            except subprocess.TimeoutExpired:
                return Archive(None, f"pip did not get psutil {version} for {machine} within {PIP_S} s")
            if ended.returncode != 0:
                said = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
                return Archive(None, f"pip did not get psutil {version} for {machine}: {said}")
            if not folder.is_dir():
                (Path(part) / "wheel").rename(folder)
    wheels = sorted(folder.glob("psutil-*.whl"))
    return Archive(wheels[0].read_bytes()) if wheels else Archive(None, f"there is no wheel in {folder}")
