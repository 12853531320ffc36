"""Go programs: found again while nothing changes, the same bytes wherever they are built."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError, InputError
from benchkit.resources import BACKENDS
from benchkit.services import go_build, go_toolchain
from benchkit.services.go_build import BuiltBinary, build, cache_folder, pinned_toolchain

pytestmark = pytest.mark.system

EM_AARCH64 = 0xB7
"""e_machine of 64-bit ARM (ELF for the Arm 64-bit Architecture)."""

MANIFEST = """\
module example.org/program

go 1.22.0

toolchain {toolchain}

require (
	example.org/part v0.0.0
	example.org/other v0.0.0 // said twice, in both forms
)

replace example.org/part => ../part

replace (
	example.org/other v0.0.0 => ../other
)
"""

MAIN = """\
package main

import (
	_ "embed"

	"example.org/other"
	"example.org/part"
)

//go:embed text.txt
var text string

func main() { println(text, part.Name, other.Name) }
"""


@pytest.fixture(scope="module")
def compiled() -> str:
    """Go's own cache of compiled packages, which stands below XDG_CACHE_HOME unless it is named."""
    go = go_toolchain.find_go()
    return go_toolchain.go_environment(go, {})["GOCACHE"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str) -> Path:
    """A cache of the test's own for what is built, and the user's for the packages of Go's library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", compiled)
    return tmp_path / "cache" / "benchkit" / "builds"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program that takes in two modules beside it and a file that is not Go."""
    return write_program(tmp_path / "sources")


def write_program(folder: Path) -> Path:
    files = {
        "program/go.mod": MANIFEST.format(toolchain=pinned_toolchain(BACKENDS / "nethttp")),
        "program/main.go": MAIN,
        "program/main_test.go": "package main\n",
        "program/text.txt": "text",
    }
    for part in ("part", "other"):
        files |= {f"{part}/go.mod": f"module example.org/{part}\n\ngo 1.22.0\n"}
        files |= {f"{part}/part.go": f'package {part}\n\nconst Name = "{part}"\n'}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "program"


def here(source: Path) -> BuiltBinary:
    return build(source, goos="linux", goarch="amd64")


def no_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Leave the process without a go command."""
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode)
        for path in folder.rglob("*")
    }


def test_what_was_built(source: Path, cache: Path) -> None:
    built = here(source)

    assert built.path.name == "program"
    assert built.path.parent.parent == cache == cache_folder()
    assert built.go_version == pinned_toolchain(source)
    assert os.access(built.path, os.X_OK)
    content = built.path.read_bytes()
    assert content.startswith(b"\x7fELF")
    assert b".symtab" in content, "profiles need symbols"
    assert not list(cache.glob(".building-*"))


def test_an_unchanged_program_needs_no_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = here(source)
    no_go(monkeypatch, tmp_path / "bare")

    assert here(source) == first


def append(name: str, text: str) -> Callable[[Path], None]:
    def change(source: Path) -> None:
        with (source / name).open("a") as file:
            file.write(text)

    return change


@pytest.mark.parametrize(
    "change",
    [
        append("main.go", "\nfunc init() { println() }\n"),
        append("text.txt", " that is embedded"),
        append("../part/part.go", "\nfunc init() { println() }\n"),
        append("../other/part.go", "\nfunc init() { println() }\n"),
    ],
    ids=["source", "embedded file", "module beside it", "module beside it, in a block"],
)
def test_a_change_is_built(source: Path, change: Callable[[Path], None]) -> None:
    before = here(source)
    change(source)

    after = here(source)
    assert after.path != before.path
    assert after.sha256 != before.sha256


def test_a_changed_test_is_no_change(source: Path) -> None:
    before = here(source)
    append("main_test.go", "// more\n")(source)

    assert here(source) == before


def test_the_same_bytes_from_other_places(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = here(source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other cache"))
    monkeypatch.setenv("GOCACHE", str(tmp_path / "nothing compiled yet"))
    second = here(write_program(tmp_path / "a longer name" / "sources"))

    assert second.path != first.path
    assert second.sha256 == first.sha256


def test_nobodys_settings_shape_it(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = here(source)
    (source.parent / "go.work").write_text("go 1.22.0\n")
    (tmp_path / "goenv").write_text("GOFLAGS=-ldflags=-s\nGOAMD64=v3\n")
    for name, value in {
        "GOENV": str(tmp_path / "goenv"),
        "GOFLAGS": "-ldflags=-w -tags=other",
        "GOAMD64": "v2",
        "GOARCH": "386",
        "GOTOOLCHAIN": "go1.99.9",
        "CGO_ENABLED": "1",
        "XDG_CACHE_HOME": str(tmp_path / "other cache"),
    }.items():
        monkeypatch.setenv(name, value)
    second = here(source)

    assert second.path != first.path
    assert second.sha256 == first.sha256


def test_for_another_architecture(source: Path) -> None:
    built = build(source, goos="linux", goarch="arm64")

    assert int.from_bytes(built.path.read_bytes()[18:20], "little") == EM_AARCH64
    assert built.path != here(source).path


def test_a_release_behaves_as_itself(source: Path) -> None:
    """The `go 1.22.0` of go.mod must not give a newer release the behaviour of Go 1.22."""
    built = here(source)
    go = go_toolchain.find_go()
    said = go_toolchain.run_go(
        [go, "version", "-m", str(built.path)], cwd=source, environment=go_toolchain.go_environment(go, {})
    ).stdout

    assert said.startswith(f"{built.path}: {built.go_version}\n")
    assert "CGO_ENABLED=0" in said
    assert "DefaultGODEBUG" not in said


def test_sources_are_only_read(source: Path) -> None:
    for folder in (source, *(path for path in source.parent.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    before = state(source.parent)
    try:
        here(source)
        assert state(source.parent) == before
    finally:
        for folder in (source, *(path for path in source.parent.rglob("*") if path.is_dir())):
            folder.chmod(0o755)


def test_gos_own_words(source: Path, cache: Path) -> None:
    append("main.go", "\nvar number int = text\n")(source)

    with pytest.raises(BenchkitError, match=r"linux/amd64[\s\S]*main\.go:\d+:\d+: cannot use text") as raised:
        here(source)
    assert raised.value.exit_code == 1
    assert list(cache.iterdir()) == []


def test_an_unknown_target(source: Path) -> None:
    with pytest.raises(BenchkitError, match="unsupported GOOS/GOARCH pair linux/vax"):
        build(source, goos="linux", goarch="vax")


@pytest.mark.parametrize("version", ["1.24", "1", "latest", "1.24.0; rm", "../1.24.0", "go"])
def test_a_release_is_written_in_full(source: Path, version: str) -> None:
    with pytest.raises(InputError, match="is incomplete"):
        build(source, goos="linux", goarch="amd64", go_version=version)


def test_the_pinned_release_by_name(source: Path) -> None:
    pinned = pinned_toolchain(source)

    assert build(source, goos="linux", goarch="amd64", go_version=pinned) == here(source)
    assert build(source, goos="linux", goarch="amd64", go_version=pinned.removeprefix("go")) == here(source)


def test_no_module(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no go\.mod"):
        here(tmp_path)


def test_no_toolchain_named(source: Path) -> None:
    (source / "go.mod").write_text("module example.org/program\n\ngo 1.22.0\n")

    with pytest.raises(InputError, match="names no toolchain"):
        here(source)


def test_no_go(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_go(monkeypatch, tmp_path / "bare")

    with pytest.raises(InputError, match=r"none on PATH[\s\S]*benchkit\[go\]"):
        here(source)


def test_a_go_that_is_too_old_gives_way_to_the_package(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = go_toolchain.find_go()
    no_go(monkeypatch, tmp_path / "bare")
    old = tmp_path / "bare" / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    with pytest.raises(InputError, match=r"go1\.19\.8"):
        here(source)

    beside = tmp_path / "venv" / "bin"
    beside.mkdir(parents=True)
    (beside / "go").symlink_to(Path(real).resolve())
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    assert go_toolchain.find_go() == str(beside / "go")
    assert here(source).go_version == pinned_toolchain(source)


@pytest.mark.parametrize("damage", ["program", go_build.RECORD])
def test_what_was_cut_off_is_built_again(source: Path, damage: str) -> None:
    first = here(source)
    os.truncate(first.path.parent / damage, 10)

    assert here(source) == first
    assert first.path.stat().st_size > 10


def test_two_at_once(source: Path, cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(here, [source, source])

    assert one == two
    assert [path.name for path in cache.iterdir()] == [one.path.parent.name]
