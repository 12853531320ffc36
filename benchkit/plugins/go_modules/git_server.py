"""Git over SSH: bare repositories behind an OpenSSH server of their own, where readers can read and do nothing else.

Repositories are created from input of `git fast-import`. Author, times and content are fixed. So the same options give
the same commits, pseudo-versions and lines of go.sum on every host and in every run.
"""

from __future__ import annotations

import hashlib
import random
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.models.base import Frozen, Name
from benchkit.models.protocol import Protocol
from benchkit.plugins.go_modules.ssh import SshKeyFile, host_key_name, reader_key_name, server_config
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.service import EXECUTABLE, Service, ServiceFile, ServiceProcess, SetupCommand

ModulePath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*\.[a-z]+(/[a-z0-9][a-z0-9._-]*)*$")]
"""Import paths in lower case; capitals would have to be escaped in URLs."""

AUTHOR = "Ada Example <ada@example.com>"
FIRST_COMMIT_S = 1_700_000_000
"""14 November 2023; every commit is dated one minute after the one before."""
MINUTE_S = 60
FILE_BYTES = 4096


class RepositoryContent(Frozen):
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
        self.line(f"reset refs/tags/{name}", f"from :{mark}", "")

    def line(self, *lines: str) -> None:
        self.parts += [f"{line}\n".encode() for line in lines]

    def data(self, text: str) -> None:
        content = text.encode()
        self.parts += [f"data {len(content)}\n".encode(), content, b"\n"]


def fast_import_stream(name: str, repository: RepositoryContent) -> bytes:
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


SETUP_TIMEOUT_S = 120.0
"""A repository of a hundred versions takes 30 ms to create; this is enough for a thousand large ones."""

RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\*?$")]
"""`module1`; with a star at its end, all names that begin like it lead to the one repository."""


class GitServerOptions(ServiceOptions):
    """Options of a git server, with the repositories that are created for it."""

    repositories: Mapping[RepositoryName, RepositoryContent] = Field(
        min_length=1,
        description="repositories that are created for it, by name; `new-*`: any number of them",
        examples=[{"module1": {"module": "mycompany.com/go/module1", "versions": 3}}],
    )
    readers: tuple[Name, ...] = Field(
        default=("proxy",), min_length=1, description="names of the readers; each gets a key of its own"
    )


@dataclass(frozen=True)
class PlacedRepository:
    """A repository on its host.

    Its folder is named by its content, so it is created once for all cells that have it.
    """

    name: str
    content: bytes
    folder: PurePosixPath
    stream: PurePosixPath
    """The file with the content, for `git fast-import`."""


class GitServer(Backend[GitServerOptions]):
    """An sshd in the foreground whose only command is a script that reads repositories."""

    name = "git-ssh"
    options = GitServerOptions

    def protocol(self, options: GitServerOptions) -> Protocol:
        """Return ssh."""
        del options
        return "ssh"

    def programs(self, options: GitServerOptions) -> tuple[str, ...]:
        """Return sshd and git."""
        del options
        return ("sshd", "git")

    def render(self, request: RenderRequest[GitServerOptions]) -> Service:
        """Return one git server."""
        options, place, server = request.options, request.place, request.endpoint
        folder, sshd, git = place.folder, place.program("sshd"), place.program("git").path
        config, key = folder / "sshd_config", folder / "host_key"
        read_script, create_script = folder / "read.sh", folder / "make.sh"
        reader_keys = {reader: folder / f"reader_{reader}.pub" for reader in options.readers}
        repositories = _place_repositories(options.repositories, folder)
        text = server_config(
            version=sshd.version,
            listen=server,
            host_key=key,
            authorized_keys=tuple(reader_keys.values()),
            root=place.root,
        )
        command = shlex.quote(str(read_script)).replace('"', '\\"')  # a shell splits it, after sshd has read it
        restrictions = f'command="{command}",restrict '
        argv = (sshd.path, "-D", "-e", "-f", str(config))
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=folder,
            files=(
                ServiceFile(config, text.encode()),
                ServiceFile(key, SshKeyFile(host_key_name(server), "private"), PRIVATE_FILE),
                *(
                    ServiceFile(path, SshKeyFile(reader_key_name(server, reader), "public", prefix=restrictions))
                    for reader, path in reader_keys.items()
                ),
                ServiceFile(read_script, forced_command_script(git, repositories).encode(), EXECUTABLE),
                ServiceFile(create_script, creation_script(git, repositories).encode(), EXECUTABLE),
                *(ServiceFile(repository.stream, repository.content) for repository in repositories),
            ),
            process=ServiceProcess(argv, place.select_cpus(options.cpus, "cpus"), place.file_limit(options.nofile)),
            endpoint=server,
            forks_per_request=True,
            setup_commands=(
                SetupCommand(("/bin/sh", str(create_script)), SETUP_TIMEOUT_S),
                SetupCommand((sshd.path, "-t", "-f", str(config)), SETUP_TIMEOUT_S),
            ),
        )


def _place_repositories(
    repositories: Mapping[str, RepositoryContent], folder: PurePosixPath
) -> tuple[PlacedRepository, ...]:
    shared_folder = folder.parent.parent / "repositories"
    placed = []
    for name, repository in repositories.items():
        plain = name.rstrip("*-")
        content = fast_import_stream(plain, repository)
        file = f"{plain}-{hashlib.sha256(content).hexdigest()[:16]}"
        placed.append(PlacedRepository(name, content, shared_folder / f"{file}.git", folder / f"{file}.stream"))
    return tuple(placed)


def forced_command_script(git: str, repositories: tuple[PlacedRepository, ...]) -> str:
    """Return the script that sshd runs instead of a reader's command (`command=` in sshd(8)): it reads a repository.

    Full names are matched before names with a star.
    """
    ordered = sorted(repositories, key=lambda repository: repository.name.endswith("*"))
    cases = "\n".join(f"{each.name}) repository={shlex.quote(str(each.folder))} ;;" for each in ordered)
    return f"""\
#!/bin/sh
# git sends the command: git-upload-pack '/name'
wanted=${{SSH_ORIGINAL_COMMAND#git-upload-pack \\'}}
if [ "$wanted" = "${{SSH_ORIGINAL_COMMAND-}}" ]; then
  echo "this server only lets you read repositories" >&2
  exit 1
fi
name=${{wanted%\\'}}
name=${{name#/}}
name=${{name%.git}}
case "$name" in
"" | *[!A-Za-z0-9._-]*) repository= ;;
{cases}
*) repository= ;;
esac
if [ -z "$repository" ]; then
  echo "no such repository: $name" | tr -c '[:print:]\\n' '?' >&2
  exit 1
fi
exec {shlex.quote(git)} upload-pack --strict "$repository"
"""


def creation_script(git: str, repositories: tuple[PlacedRepository, ...]) -> str:
    """Return the script that creates the missing repositories, each in a temporary folder that it then renames."""
    calls = "\n".join(
        f"create {shlex.quote(str(each.folder))} {shlex.quote(str(each.stream))}" for each in repositories
    )
    return f"""\
#!/bin/sh
set -eu
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git() {{ {shlex.quote(git)} "$@"; }}
create() {{
  if [ -d "$1" ]; then return; fi
  mkdir -p "${{1%/*}}"
  part="$1.part.$$"
  git init --quiet --bare --template= "$part"
  git -C "$part" symbolic-ref HEAD refs/heads/main
  git -C "$part" fast-import --quiet --done <"$2"
  mv "$part" "$1"
}}
{calls}
"""


GIT_SSH = GitServer()
