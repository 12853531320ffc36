from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchkit.services.go_modules.fast_import import Repository, fast_import_stream

pytestmark = pytest.mark.system


def git(folder: Path, *argv: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", "-C", folder, *argv], input=stdin, capture_output=True, check=True)
    return done.stdout.decode()


def imported(folder: Path, name: str, repository: Repository) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", "--template=", ".")
    git(folder, "fast-import", "--quiet", "--done", stdin=fast_import_stream(name, repository))
    return folder


def test_a_repository_has_its_versions_submodules_and_major_version(tmp_path: Path) -> None:
    whole = Repository(module="a.example/go/one", versions=3, submodules=("sub",), major=True, untagged=True)
    made = imported(tmp_path / "one", "one", whole)
    assert git(made, "tag").split() == ["sub/v0.1.0", "v1.0.0", "v1.1.0", "v1.2.0", "v2.0.0"]
    assert git(made, "show", "v1.2.0:go.mod") == "module a.example/go/one\n\ngo 1.20\n"
    assert git(made, "show", "v2.0.0:go.mod") == "module a.example/go/one/v2\n\ngo 1.20\n"
    assert git(made, "show", "sub/v0.1.0:sub/go.mod") == "module a.example/go/one/sub\n\ngo 1.20\n"
    assert 'const Version = "v1.1.0"' in git(made, "show", "v1.1.0:version.go")
    assert git(made, "log", "-1", "--format=%s", "main").strip() == "Commit 5"
    assert git(made, "describe", "--tags", "main").startswith("v1.2.0-1-g")
    assert git(made, "fsck", "--strict") == ""


def test_one_without_a_module_has_no_go_mod(tmp_path: Path) -> None:
    made = imported(tmp_path / "new", "new", Repository(versions=2, major=True, submodules=("sub",)))
    assert "go.mod" not in git(made, "ls-tree", "-r", "--name-only", "v1.1.0")
    assert "v2.0.0" not in git(made, "tag")


def test_the_same_options_give_the_same_commits(tmp_path: Path) -> None:
    repository = Repository(module="a.example/x", versions=2, untagged=True)
    one, two = (imported(tmp_path / name, "x", repository) for name in ("one", "two"))
    assert git(one, "rev-parse", "main") == git(two, "rev-parse", "main")
    assert fast_import_stream("x", repository) != fast_import_stream("y", repository)


@pytest.mark.parametrize("size", [0, 100, 16384, 100_000])
def test_source_text_is_about_as_long_as_asked_for_and_valid(tmp_path: Path, size: int) -> None:
    made = imported(tmp_path / "x", "a-b.c", Repository(module="a.example/x", size_bytes=size))
    sizes = [int(line.split()[3]) for line in git(made, "ls-tree", "-r", "-l", "main").splitlines()]
    assert size <= sum(sizes) <= 1.1 * size + 300
    git(made, "worktree", "add", "--quiet", str(tmp_path / "tree"), "main")
    files = sorted((tmp_path / "tree").glob("*.go"))
    assert subprocess.run(["gofmt", "-l", *files], capture_output=True, text=True, check=True).stdout == ""


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in ({"module": "nodots"}, {"module": "A.example/x"}, {"versions": 0}, {"size_bytes": -1}):
        with pytest.raises(ValidationError):
            Repository.model_validate(wrong)
