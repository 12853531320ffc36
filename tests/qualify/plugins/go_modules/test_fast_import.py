from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchkit.plugins.go_modules.git_server import RepositoryContent, fast_import_stream


def git(folder: Path, *argv: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", "-C", folder, *argv], input=stdin, capture_output=True, check=True)
    return done.stdout.decode()


def import_repository(folder: Path, name: str, repository: RepositoryContent) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", "--template=", ".")
    git(folder, "fast-import", "--quiet", "--done", stdin=fast_import_stream(name, repository))
    return folder


def test_a_repository_has_its_versions_submodules_and_major_version(tmp_path: Path) -> None:
    options = RepositoryContent(module="a.example/go/one", versions=3, submodules=("sub",), major=True, untagged=True)
    repository_folder = import_repository(tmp_path / "one", "one", options)
    assert git(repository_folder, "tag").split() == ["sub/v0.1.0", "v1.0.0", "v1.1.0", "v1.2.0", "v2.0.0"]
    assert git(repository_folder, "show", "v1.2.0:go.mod") == "module a.example/go/one\n\ngo 1.20\n"
    assert git(repository_folder, "show", "v2.0.0:go.mod") == "module a.example/go/one/v2\n\ngo 1.20\n"
    assert git(repository_folder, "show", "sub/v0.1.0:sub/go.mod") == "module a.example/go/one/sub\n\ngo 1.20\n"
    assert 'const Version = "v1.1.0"' in git(repository_folder, "show", "v1.1.0:version.go")
    assert git(repository_folder, "log", "-1", "--format=%s", "main").strip() == "Commit 5"
    assert git(repository_folder, "describe", "--tags", "main").startswith("v1.2.0-1-g")
    assert git(repository_folder, "fsck", "--strict") == ""


def test_a_repository_without_module_has_no_go_mod(tmp_path: Path) -> None:
    repository_folder = import_repository(
        tmp_path / "new", "new", RepositoryContent(versions=2, major=True, submodules=("sub",))
    )
    assert "go.mod" not in git(repository_folder, "ls-tree", "-r", "--name-only", "v1.1.0")
    assert "v2.0.0" not in git(repository_folder, "tag")


def test_source_text_is_valid(tmp_path: Path) -> None:
    repository_folder = import_repository(tmp_path / "x", "a-b.c", RepositoryContent(module="a.example/x"))
    git(repository_folder, "worktree", "add", "--quiet", str(tmp_path / "tree"), "main")
    files = sorted((tmp_path / "tree").glob("*.go"))
    assert 12_000 < sum(file.stat().st_size for file in files) < 24_000
    assert subprocess.run(["gofmt", "-l", *files], capture_output=True, text=True, check=True).stdout == ""


def test_invalid_options_are_rejected() -> None:
    for wrong in ({"module": "nodots"}, {"module": "A.example/x"}, {"versions": 0}):
        with pytest.raises(ValidationError):
            RepositoryContent.model_validate(wrong)
