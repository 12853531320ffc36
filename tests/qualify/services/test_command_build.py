"""Builds of servers that are given by their command lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError
from benchkit.services.builds import BuiltFolder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "benchkit" / "builds" / "outputs"


@pytest.mark.usefixtures("cache")
def test_a_build_has_the_variables_of_its_scenario(tmp_path: Path) -> None:
    argv = ("sh", "-c", 'echo "$MODE $GOFLAGS" > {out}/app')
    built = [BuiltFolder(argv, tmp_path, "linux", "arm64", env=(("MODE", mode),)) for mode in ("one", "other two")]
    assert [(each.build().path / "app").read_text() for each in built] == [
        "one -buildvcs=false\n",
        "other two -buildvcs=false\n",
    ]
    assert [str(each).split(" sh ")[0] for each in built] == ["`MODE=one", "`MODE='other two'"]
    own = BuiltFolder(argv, tmp_path, "linux", "arm64", env=(("GOFLAGS", "-trimpath"),))
    assert (own.build().path / "app").read_text() == " -trimpath\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("sh", "-c", "echo broken source; exit 3"), r"failed: exit code 3:\n    broken source"),
        (("no-such-compiler",), r"cannot run the build `no-such-compiler`: it is not on the PATH"),
        (("./denied",), r"cannot run the build `./denied`: Permission denied"),
        (("true",), r"the build `true` left no file"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_a_build_that_fails_shows_its_last_lines(
    tmp_path: Path, argv: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no-such-compiler", "denied"):  # the kernel denies the permission to run a folder, also on the PATH
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(BenchkitError, match=message):
        BuiltFolder(argv, tmp_path, "linux", "amd64").build()
