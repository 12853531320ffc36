"""Builds of Go programs: the cache, reproducible bytes, and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.files import BACKENDS
from benchkit.services.go_build import GoSource, find_go, go_environment, pinned_toolchain

MANIFEST = """\
module example.org/program

go 1.26.0

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
    return go_environment(find_go(), {})["GOCACHE"]


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
        files |= {f"{part}/go.mod": f"module example.org/{part}\n\ngo 1.26.0\n"}
        files |= {f"{part}/part.go": f'package {part}\n\nconst Name = "{part}"\n'}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "program"


def build(source: Path, goarch: str = "amd64") -> Path:
    return GoSource(source, "linux", goarch).read()


def remove_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Hide the go command from this process."""
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def append(name: str, text: str) -> Callable[[Path], None]:
    def change(source: Path) -> None:
        with (source / name).open("a") as file:
            file.write(text)

    return change


def test_an_unchanged_program_is_in_the_cache_with_symbols_and_needs_no_compiler(
    source: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(build, [source, source])
    assert one == two == cache / GoSource(source, "linux", "amd64").key / "program"
    assert [each.name for each in cache.iterdir()] == [one.parent.name]
    assert os.access(one, os.X_OK)
    assert b".symtab" in one.read_bytes(), "profiles need symbols"
    append("main_test.go", "// more\n")(source)
    remove_go(monkeypatch, tmp_path / "bare")
    assert build(source) == one


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
    before = build(source)
    change(source)
    assert build(source).read_bytes() != before.read_bytes()


def test_builds_are_reproducible_in_other_folders_and_with_other_settings(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(source)
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
    other = write_program(tmp_path / "a longer name" / "sources")
    (other.parent / "go.work").write_text("go 1.22.0\n")
    second = build(other)
    assert second != first
    assert second.read_bytes() == first.read_bytes()


def test_go_of_the_package_is_used_where_go_on_path_is_missing_or_too_old(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = find_go()
    remove_go(monkeypatch, tmp_path / "bare")
    with pytest.raises(InputError, match=r"none on PATH[\s\S]*benchkit\[go\]"):
        build(source)
    old_go = tmp_path / "bare" / "go"
    old_go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old_go.chmod(0o755)
    with pytest.raises(InputError, match=r"go1\.19\.8"):
        build(source)
    venv_bin = tmp_path / "venv" / "bin"
    venv_bin.mkdir(parents=True)
    (venv_bin / "go").symlink_to(Path(go).resolve())
    monkeypatch.setattr(sys, "executable", str(venv_bin / "python"))
    assert find_go() == str(venv_bin / "go")
    assert build(source).is_file()
