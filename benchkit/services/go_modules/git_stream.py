"""Git repositories of Go modules, as streams for `git fast-import`: the same options give the same commits everywhere.

Author, times and content are fixed, so that hashes, pseudo-versions and lines of go.sum are the same on every host and in
every run. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.models.base import Frozen
from benchkit.models.levels import Name

ModulePath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*\.[a-z]+(/[a-z0-9][a-z0-9._-]*)*$")]
"""Import paths in lower case: those with capitals are escaped in URLs, and no repository here needs them."""

AUTHOR = "Ada Example <ada@example.com>"
FIRST_COMMIT_S = 1_700_000_000
"""14 November 2023, as every commit is dated a minute after the one before."""
MINUTE_S = 60
FILE_BYTES = 4096


class Repository(Frozen):
    """What a repository holds."""

    module: ModulePath | None = Field(
        default=None, description="module of its root; absent: it has no go.mod, and takes any path it is found at"
    )
    versions: int = Field(default=1, ge=1, le=1000, description="tags v1.0.0, v1.1.0, …")
    submodules: tuple[Name, ...] = Field(default=(), description="modules in folders, each tagged <folder>/v0.1.0")
    major: bool = Field(default=False, description="a version v2.0.0 on a branch v2, its module path ending in /v2")
    untagged: bool = Field(default=False, description="a commit after the last tag, for pseudo-versions")
    size_bytes: int = Field(default=16384, ge=0, le=1 << 24, description="source text of a version, about")


@dataclass
class _Stream:
    """A stream being written."""

    parts: list[bytes] = field(default_factory=list)
    commits: int = 0

    def commit(self, branch: str, files: dict[str, str], *, parent: int | None) -> int:
        """A commit that writes these files over those of its parent; its mark."""
        self.commits += 1
        at_s = FIRST_COMMIT_S + MINUTE_S * self.commits
        message = f"Commit {self.commits}\n"
        self.line(f"commit refs/heads/{branch}", f"mark :{self.commits}", f"committer {AUTHOR} {at_s} +0000")
        self.data(message)
        if parent is not None and branch != "main":
            self.line(f"from :{parent}")
        for path, content in files.items():
            self.line(f"M 100644 inline {path}")
            self.data(content)
        return self.commits

    def tag(self, name: str, mark: int) -> None:
        """A lightweight tag."""
        self.line(f"reset refs/tags/{name}", f"from :{mark}", "")

    def line(self, *lines: str) -> None:
        self.parts += [f"{line}\n".encode() for line in lines]

    def data(self, text: str) -> None:
        content = text.encode()
        self.parts += [f"data {len(content)}\n".encode(), content, b"\n"]


def stream(name: str, repository: Repository) -> bytes:
    """What `git fast-import` makes the repository from; `name` seeds its source text."""
    made = _Stream()
    base = repository.module
    package = _package(name)
    files = dict(_sources(name, package, repository.size_bytes))
    if base is not None:
        files["go.mod"] = f"module {base}\n\ngo 1.20\n"
    for folder in repository.submodules if base is not None else ():
        files |= {
            f"{folder}/go.mod": f"module {base}/{folder}\n\ngo 1.20\n",
            f"{folder}/{folder}.go": f'package {_package(folder)}\n\n// Name is the folder\'s.\nconst Name = "{folder}"\n',
        }
    mark = None
    for minor in range(repository.versions):
        version = f"v1.{minor}.0"
        mark = made.commit("main", {**files, "version.go": _version(package, version)}, parent=mark)
        files = {}
        made.tag(version, mark)
        if minor == 0:
            for folder in repository.submodules:
                made.tag(f"{folder}/v0.1.0", mark)
    if repository.major and base is not None:
        changed = {"go.mod": f"module {base}/v2\n\ngo 1.20\n", "version.go": _version(package, "v2.0.0")}
        made.tag("v2.0.0", made.commit("v2", changed, parent=mark))
    if repository.untagged:
        made.commit("main", {"version.go": _version(package, "untagged")}, parent=mark)
    made.line("done")
    return b"".join(made.parts)


def _package(name: str) -> str:
    """A name that Go takes for a package; import paths end differently where that is not the same."""
    return name.replace("-", "_").replace(".", "_")


def _version(package: str, version: str) -> str:
    return f'package {package}\n\n// Version says which version this is.\nconst Version = "{version}"\n'


def _sources(name: str, package: str, size_bytes: int) -> Iterator[tuple[str, str]]:
    """Files of Go constants that compress as badly as hashes do, so that sizes mean something."""
    words = random.Random(name)  # noqa: S311 - filling, no secret
    for number in range(-(-size_bytes // FILE_BYTES)):
        lines = [f"package {package}", ""]
        size = 0
        while size < min(FILE_BYTES, size_bytes - number * FILE_BYTES):
            lines.append(f'const word{number}x{size} = "{words.randbytes(24).hex()}"')
            size += len(lines[-1]) + 1
        yield f"words{number}.go", "\n".join([*lines, ""])
