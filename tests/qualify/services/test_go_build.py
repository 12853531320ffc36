"""Builds of Go programs: the cache, reproducible bytes, and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError, InputError
from benchkit.files import BACKENDS
from benchkit.services import go_build
from benchkit.services.go_build import build, cache_folder, pinned_toolchain

EM_AARCH64 = 0xB7
"""e_machine of 64-bit ARM (ELF for the Arm 64-bit Architecture)."""

MANIFEST = """\
module example.org/program

go 1.22.0

toolchain {toolchain}

require (
	example.org/part v0.0.0
	example.org/other v0.0.0 // two replace directives, in both forms
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
    """Go's own cache of compiled packages, which is in XDG_CACHE_HOME unless GOCACHE is set."""
    go = go_build.find_go()
    return go_build.go_environment(go, {})["GOCACHE"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str) -> Path:
    """Empty build cache; the user's cache of compiled standard packages stays in use."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", compiled)
    return tmp_path / "cache" / "benchkit" / "builds"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Program that uses two local modules and embeds a text file."""
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


def build_for_amd64(source: Path) -> Path:
    return build(source, goos="linux", goarch="amd64")


def remove_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Hide the go command from this process."""
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode)
        for path in folder.rglob("*")
    }


def test_build_puts_an_executable_with_symbols_into_the_cache(source: Path, cache: Path) -> None:
    built = build_for_amd64(source)

    assert built.name == "program"
    assert built.parent.parent == cache == cache_folder()
    assert os.access(built, os.X_OK)
    content = built.read_bytes()
    assert content.startswith(b"\x7fELF")
    assert b".symtab" in content, "profiles need symbols"
    assert not list(cache.glob(".building-*"))


def test_an_unchanged_program_needs_no_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_for_amd64(source)
    remove_go(monkeypatch, tmp_path / "bare")

    assert build_for_amd64(source) == first


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
    ids=["source", "embedded file", "replaced module", "module replaced in a block"],
)
def test_a_changed_source_is_rebuilt(source: Path, change: Callable[[Path], None]) -> None:
    before = build_for_amd64(source)
    change(source)

    after = build_for_amd64(source)
    assert after != before
    assert after.read_bytes() != before.read_bytes()


def test_a_changed_test_file_does_not_cause_a_build(source: Path) -> None:
    before = build_for_amd64(source)
    append("main_test.go", "// more\n")(source)

    assert build_for_amd64(source) == before


def test_builds_are_reproducible_in_other_folders(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_for_amd64(source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other cache"))
    monkeypatch.setenv("GOCACHE", str(tmp_path / "nothing compiled yet"))
    second = build_for_amd64(write_program(tmp_path / "a longer name" / "sources"))

    assert second != first
    assert second.read_bytes() == first.read_bytes()


def test_go_settings_of_the_user_do_not_change_the_build(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_for_amd64(source)
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
    second = build_for_amd64(source)

    assert second != first
    assert second.read_bytes() == first.read_bytes()


def test_cross_compilation(source: Path) -> None:
    built = build(source, goos="linux", goarch="arm64")

    assert int.from_bytes(built.read_bytes()[18:20], "little") == EM_AARCH64
    assert built != build_for_amd64(source)


def test_a_release_has_its_own_run_time_defaults(source: Path) -> None:
    """Build with a release newer than the `go 1.22.0` of go.mod, which must not get the defaults of Go 1.22."""
    built = build_for_amd64(source)
    go = go_build.find_go()
    output = go_build.run_go(
        [go, "version", "-m", str(built)], cwd=source, environment=go_build.go_environment(go, {})
    ).stdout

    assert output.startswith(f"{built}: {pinned_toolchain(source)}\n")
    assert "CGO_ENABLED=0" in output
    assert "DefaultGODEBUG" not in output


def test_sources_are_not_written_to(source: Path) -> None:
    for folder in (source, *(path for path in source.parent.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    before = state(source.parent)
    try:
        build_for_amd64(source)
        assert state(source.parent) == before
    finally:
        for folder in (source, *(path for path in source.parent.rglob("*") if path.is_dir())):
            folder.chmod(0o755)


def test_a_failed_build_shows_the_output_of_go(source: Path, cache: Path) -> None:
    append("main.go", "\nvar number int = text\n")(source)

    with pytest.raises(BenchkitError, match=r"linux/amd64[\s\S]*main\.go:\d+:\d+: cannot use text") as error:
        build_for_amd64(source)
    assert error.value.exit_code == 1
    assert list(cache.iterdir()) == []


def test_an_unknown_target_is_an_error(source: Path) -> None:
    with pytest.raises(BenchkitError, match="unsupported GOOS/GOARCH pair linux/vax"):
        build(source, goos="linux", goarch="vax")


@pytest.mark.parametrize("version", ["1.24", "1", "latest", "1.24.0; rm", "../1.24.0", "go"])
def test_an_incomplete_release_number_is_rejected(source: Path, version: str) -> None:
    with pytest.raises(InputError, match="is incomplete"):
        build(source, goos="linux", goarch="amd64", go_version=version)


def test_the_pinned_release_can_be_named(source: Path) -> None:
    pinned = pinned_toolchain(source)

    assert build(source, goos="linux", goarch="amd64", go_version=pinned) == build_for_amd64(source)
    assert build(source, goos="linux", goarch="amd64", go_version=pinned.removeprefix("go")) == build_for_amd64(source)


def test_a_folder_without_go_mod_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"go\.mod is missing"):
        build_for_amd64(tmp_path)


def test_a_go_mod_without_toolchain_is_an_error(source: Path) -> None:
    (source / "go.mod").write_text("module example.org/program\n\ngo 1.22.0\n")

    with pytest.raises(InputError, match="names no toolchain"):
        build_for_amd64(source)


def test_a_controller_without_go_is_an_error(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_go(monkeypatch, tmp_path / "bare")

    with pytest.raises(InputError, match=r"none on PATH[\s\S]*benchkit\[go\]"):
        build_for_amd64(source)


def test_go_of_the_package_is_used_where_go_on_path_is_too_old(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = go_build.find_go()
    remove_go(monkeypatch, tmp_path / "bare")
    old_go = tmp_path / "bare" / "go"
    old_go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old_go.chmod(0o755)
    with pytest.raises(InputError, match=r"go1\.19\.8"):
        build_for_amd64(source)

    venv_bin = tmp_path / "venv" / "bin"
    venv_bin.mkdir(parents=True)
    (venv_bin / "go").symlink_to(Path(go).resolve())
    monkeypatch.setattr(sys, "executable", str(venv_bin / "python"))
    assert go_build.find_go() == str(venv_bin / "go")
    assert build_for_amd64(source).is_file()


@pytest.mark.parametrize("damage", ["program", go_build.RECORD])
def test_a_truncated_cache_entry_is_rebuilt(source: Path, damage: str) -> None:
    first = build_for_amd64(source)
    os.truncate(first.parent / damage, 10)

    assert build_for_amd64(source) == first
    assert first.stat().st_size > 10


def test_concurrent_builds_share_one_cache_entry(source: Path, cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(build_for_amd64, [source, source])

    assert one == two
    assert [path.name for path in cache.iterdir()] == [one.parent.name]
