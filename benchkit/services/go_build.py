"""Go programs built on the controller for the hosts they go to, once for each state of their sources.

What is built is found again by a hash over sources, target and toolchain, so that an unchanged program costs the hash
and no compiler. The sources are only read: a wheel's may be read-only. The same sources give the same bytes, wherever
they and the compiler stand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchkit.errors import BenchkitError, InputError
from benchkit.services.go_toolchain import find_go, go_environment, run_go

CACHE_ENVIRONMENT = "XDG_CACHE_HOME"

FORMAT = 2
"""Goes into each key; a change in how programs are built or kept makes earlier ones unknown."""

RECORD = "build.json"

_TOOLCHAIN = re.compile(r"^toolchain\s+(go\S+)\s*$\n?", re.MULTILINE)
_LANGUAGE = re.compile(r"^go\s+(\S+)\s*$", re.MULTILINE)
_RELEASE = re.compile(r"(?:go)?(1\.[0-9]+(?:\.[0-9]+|rc[0-9]+|beta[0-9]+))")
_REPLACED_LOCALLY = re.compile(r"^(?!\s*//).*=>\s+(\.{0,2}/\S+)", re.MULTILINE)


@dataclass(frozen=True)
class BuiltBinary:
    """An executable of ours, and what it was built with (`go1.26.8`)."""

    path: Path
    sha256: str
    go_version: str


@dataclass(frozen=True)
class _Record:
    """What is known of a built file without reading it."""

    sha256: str
    size: int


def build(source: Path, *, goos: str, goarch: str, go_version: str | None = None, package: str = ".") -> BuiltBinary:
    """The program of the Go module at `source`, built for a target; from the cache where nothing has changed.

    `go_version` (`1.22.10`) replaces the toolchain that the module pins. `package` is what is built, as `go build` takes
    it; other than the module's own root it may be a program that the module requires. Symbols stay in: profiles need
    them. Raises InputError where there is no Go, module or such release, BenchkitError with Go's own words where it does
    not build.
    """
    manifest = _manifest(source)
    toolchain = _release(go_version) if go_version else pinned_toolchain(source)
    entry = cache_folder() / _key(source, manifest, (goos, goarch, toolchain, package))
    name = source.resolve().name
    record = _kept(entry, name)
    if record is None:
        record = _make(source, manifest, entry, goos=goos, goarch=goarch, toolchain=toolchain, package=package)
    return BuiltBinary(entry / name, record.sha256, toolchain)


def pinned_toolchain(source: Path) -> str:
    """The toolchain that a module's go.mod names: `go1.26.8`. Raises InputError where it names none."""
    match = _TOOLCHAIN.search(_manifest(source))
    if match is None:
        raise InputError("names no toolchain", where=str(source / "go.mod"), hint="add a line `toolchain go1.x.y`")
    return match[1]


def oldest_release(source: Path) -> str:
    """The oldest release that compiles a module, as its go.mod says: `1.22.0`. Raises InputError where it says none."""
    match = _LANGUAGE.search(_manifest(source))
    if match is None:
        raise InputError("names no oldest Go", where=str(source / "go.mod"), hint="add a line `go 1.x.y`")
    return match[1]


def release_numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release without its `go`, for comparing: `1.22.10` → (1, 22, 10)."""
    return tuple(int(number) for number in release.split("."))


def cache_folder() -> Path:
    """Where what was built is kept; it may be deleted at any time."""
    base = os.environ.get(CACHE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".cache") / "benchkit" / "builds"


def _manifest(source: Path) -> str:
    try:
        return (source / "go.mod").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no Go module: it has no go.mod", where=str(source)) from None


def _release(version: str) -> str:
    match = _RELEASE.fullmatch(version)
    if match is None:
        raise InputError(
            f"Go release {version!r} is not written in full", hint="like '1.24.0': 1.24 alone names a language version"
        )
    return f"go{match[1]}"


def _key(source: Path, manifest: str, target: tuple[str, ...]) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, *target]).encode())
    modules = [source, *(source / path for path in _REPLACED_LOCALLY.findall(manifest))]
    for number, module in enumerate(modules):
        for path in _sources(module):
            content = path.read_bytes()
            digest.update(json.dumps([number, path.relative_to(module).as_posix(), len(content)]).encode())
            digest.update(content)
    return digest.hexdigest()[:32]


def _sources(module: Path) -> Iterator[Path]:
    """The files of a module that a build may read, in a fixed order: all, for a program may embed any, but its tests."""
    for folder, folders, files in os.walk(module):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and not name.endswith("_test.go"):
                yield Path(folder, name)


def _kept(entry: Path, name: str) -> _Record | None:
    """The record of a program in the cache; None where it is not there whole."""
    try:
        record = _Record(**json.loads((entry / RECORD).read_text(encoding="utf-8")))
        return record if (entry / name).stat().st_size == record.size else None
    except (FileNotFoundError, ValueError, TypeError):  # absent, or cut off when the machine lost power
        return None


def _make(source: Path, manifest: str, entry: Path, *, goos: str, goarch: str, toolchain: str, package: str) -> _Record:
    """Build a program beside its place in the cache and move it there whole."""
    go = find_go()
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=entry.parent) as scratch:
        modfile = _modfile(source, manifest, Path(scratch), toolchain)
        made = Path(scratch) / "entry" / source.resolve().name
        target = {"CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch, "GOTOOLCHAIN": toolchain}
        flags = ("-trimpath", "-buildvcs=false", "-mod=readonly", f"-modfile={modfile}")
        done = run_go(
            [go, "build", *flags, "-o", str(made), package], cwd=source, environment=go_environment(go, target)
        )
        if done.returncode != 0:
            raise BenchkitError(
                f"does not build for {goos}/{goarch} with {toolchain}", where=str(source), why=done.stderr.strip()
            )
        with made.open("rb") as file:
            record = _Record(hashlib.file_digest(file, "sha256").hexdigest(), made.stat().st_size)
        (made.parent / RECORD).write_text(json.dumps(asdict(record)), encoding="utf-8")
        return _settle(made.parent, entry, made.name)


def _modfile(source: Path, manifest: str, folder: Path, toolchain: str) -> Path:
    """The module's go.mod with the toolchain's own version in its `go` line, outside the sources.

    The `go` line says the oldest release that compiles the module, and Go gives a program the run-time behaviour of the
    release in that line (GODEBUG defaults, https://go.dev/doc/godebug). A release that is compared shall behave as
    itself.
    """
    modfile = folder / "go.mod"
    own = _LANGUAGE.sub(f"go {toolchain.removeprefix('go')}", _TOOLCHAIN.sub("", manifest), count=1)
    modfile.write_text(own, encoding="utf-8")
    if (source / "go.sum").exists():
        shutil.copyfile(source / "go.sum", folder / "go.sum")
    return modfile


def _settle(made: Path, entry: Path, name: str) -> _Record:
    """Move what was made to its place; where another process was faster, its result stays, which is the same."""
    if _kept(entry, name) is None:
        shutil.rmtree(entry, ignore_errors=True)  # a broken one, or none
    why = None
    try:
        made.rename(entry)
    except OSError as error:  # the place is taken: looked at now
        why = error.strerror
    kept = _kept(entry, name)
    if kept is None:
        raise BenchkitError("cannot keep what was built", where=str(entry), why=why, hint="is the folder writable?")
    return kept
