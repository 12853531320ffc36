"""Git repositories of Go modules as input of `git fast-import`.

Author, times and content are fixed, so the same options give the same commits, pseudo-versions and lines of go.sum on
every host and in every run. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.models.base import Frozen, Name

ModulePath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*\.[a-z]+(/[a-z0-9][a-z0-9._-]*)*$")]
"""Import paths in lower case; capitals would have to be escaped in URLs."""

AUTHOR = "Ada Example <ada@example.com>"
FIRST_COMMIT_S = 1_700_000_000
"""14 November 2023; every commit is dated one minute after the one before."""
MINUTE_S = 60
FILE_BYTES = 4096


class Repository(Frozen):
    """Content of a repository."""

    module: ModulePath | None = Field(
        default=None,
        description="module of its root; absent: it has no go.mod, and any import path that leads to it is valid",
        examples=["mycompany.com/go/module1"],
    )
    versions: int = Field(default=1, ge=1, le=1000, description="tags v1.0.0, v1.1.0, …")
    submodules: tuple[Name, ...] = Field(
        default=(), description="modules in folders, each tagged <folder>/v0.1.0", examples=[["sub"]]
    )
    major: bool = Field(default=False, description="a version v2.0.0 on a branch v2, its module path ending in /v2")
    untagged: bool = Field(default=False, description="a commit after the last tag, for pseudo-versions")
    size_bytes: int = Field(
        default=16384, ge=0, le=1 << 24, description="approximate size of the source text of a version"
    )


@dataclass
class _StreamWriter:
    """A writer of a fast-import stream."""

    parts: list[bytes] = field(default_factory=list)
    commits: int = 0

    def commit(self, branch: str, files: dict[str, str], *, parent: int | None) -> int:
        """Add a commit that adds or replaces these files, and return its mark."""
        self.commits += 1
        time_s = FIRST_COMMIT_S + MINUTE_S * self.commits
        message = f"Commit {self.commits}\n"
        self.line(f"commit refs/heads/{branch}", f"mark :{self.commits}", f"committer {AUTHOR} {time_s} +0000")
        self.data(message)
        if parent is not None and branch != "main":
            self.line(f"from :{parent}")
        for path, content in files.items():
            self.line(f"M 100644 inline {path}")
            self.data(content)
        return self.commits

    def tag(self, name: str, mark: int) -> None:
        """Add a lightweight tag."""
        self.line(f"reset refs/tags/{name}", f"from :{mark}", "")

    def line(self, *lines: str) -> None:
        self.parts += [f"{line}\n".encode() for line in lines]

    def data(self, text: str) -> None:
        content = text.encode()
        self.parts += [f"data {len(content)}\n".encode(), content, b"\n"]


def fast_import_stream(name: str, repository: Repository) -> bytes:
    """Return the input from which `git fast-import` creates the repository; `name` seeds its source text."""
    writer = _StreamWriter()
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
        mark = writer.commit("main", {**files, "version.go": _version(package, version)}, parent=mark)
        files = {}
        writer.tag(version, mark)
        if minor == 0:
            for folder in repository.submodules:
                writer.tag(f"{folder}/v0.1.0", mark)
    if repository.major and base is not None:
        changed = {"go.mod": f"module {base}/v2\n\ngo 1.20\n", "version.go": _version(package, "v2.0.0")}
        writer.tag("v2.0.0", writer.commit("v2", changed, parent=mark))
    if repository.untagged:
        writer.commit("main", {"version.go": _version(package, "untagged")}, parent=mark)
    writer.line("done")
    return b"".join(writer.parts)


def _package(name: str) -> str:
    """Return a valid name for the Go package of a repository or folder."""
    return name.replace("-", "_").replace(".", "_")


def _version(package: str, version: str) -> str:
    return f'package {package}\n\n// Version says which version this is.\nconst Version = "{version}"\n'


def _sources(name: str, package: str, size_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield files of random Go constants, which hardly compress, so that downloads have the size asked for."""
    words = random.Random(name)  # noqa: S311 - filler text, not a secret
    for number in range(-(-size_bytes // FILE_BYTES)):
        lines = [f"package {package}", ""]
        size = 0
        while size < min(FILE_BYTES, size_bytes - number * FILE_BYTES):
            lines.append(f'const word{number}x{size} = "{words.randbytes(24).hex()}"')
            size += len(lines[-1]) + 1
        yield f"words{number}.go", "\n".join([*lines, ""])
