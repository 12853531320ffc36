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
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from benchkit.lab.openssh import KEYS_ONLY, PENALTIES_SINCE, SSH_PORT, known_client, quoted
from benchkit.models.base import Frozen, Name
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.controller_files import get_or_create
from benchkit.services.placement import Endpoint
from benchkit.services.service import EXECUTABLE, ControllerFile, Service, ServiceFile, ServiceProcess, SetupCommand

ModulePath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*\.[a-z]+(/[a-z0-9][a-z0-9._-]*)*$")]
"""Import paths in lower case; capitals would have to be escaped in URLs."""

AUTHOR = "Ada Example <ada@example.com>"
FIRST_COMMIT_S = 1_700_000_000
"""14 November 2023; every commit is dated one minute after the one before."""
MINUTE_S = 60
FILES, LINES = 4, 60
"""Sources of a version: about 16 kB."""


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
    files = dict(_sources(name, package))
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


def _sources(name: str, package: str) -> Iterator[tuple[str, str]]:
    """Yield files of random Go constants, which hardly compress, so that downloads have a known size."""
    words = random.Random(name)  # noqa: S311 - filler text, not a secret
    for number in range(FILES):
        lines = [f'const word{number}x{line} = "{words.randbytes(24).hex()}"' for line in range(LINES)]
        yield f"words{number}.go", "\n".join([f"package {package}", "", *lines, ""])


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
    own_protocol = "ssh"
    needs = ("sshd", "git")

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
            process=ServiceProcess(argv, place.select_cpus(options.cpus, "cpus"), place.nofile),
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


@dataclass(frozen=True)
class SshKeyFile(ControllerFile):
    """The private or public key of a pair (Ed25519), in the format of OpenSSH's files."""

    name: str
    """Owner of the pair."""
    part: Literal["private", "public"]
    prefix: str = ""
    """Text before the public key on its line: options, or the name of a host."""

    def read(self) -> bytes:
        """Return the private key, or the line with the public one."""
        private = get_or_create(f"ssh {self.name}", _create_key)
        return private if self.part == "private" else f"{self.prefix}{_public_key(private)}\n".encode()


def _create_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def _public_key(private: bytes) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_ssh_private_key(private, password=None).public_key()
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def host_key_name(server: Endpoint) -> str:
    """Return the name of a server's host key."""
    return f"host {server.host} {server.authority}"


def reader_key_name(server: Endpoint, reader: str) -> str:
    """Return the name of the key with which a reader logs in to a server."""
    return f"reader {reader} of {server.host} {server.authority}"


def repository_url(server: Endpoint, path: str) -> str:
    """Return the URL of a repository for git."""
    return f"ssh://{server.user}@{server.authority}/{path}"


def git_reader(server: Endpoint, reader: str, folder: PurePosixPath) -> tuple[tuple[ServiceFile, ...], str]:
    """Return the files in `folder` with which a reader logs in, and GIT_SSH_COMMAND.

    They are independent of the login user's SSH settings.
    """
    config, identity, known = folder / "ssh_config", folder / "ssh_key", folder / "ssh_known_hosts"
    lines = [*known_client(identity, known), "UpdateHostKeys no", "ConnectTimeout 10"]
    name = f"{server.address} " if server.port == SSH_PORT else f"[{server.address}]:{server.port} "  # sshd(8)
    files = (
        ServiceFile(config, "".join(f"{line}\n" for line in lines).encode()),
        ServiceFile(identity, SshKeyFile(reader_key_name(server, reader), "private"), PRIVATE_FILE),
        ServiceFile(known, SshKeyFile(host_key_name(server), "public", prefix=name)),
    )
    return files, f"ssh -F {shlex.quote(str(config))}"


def server_config(
    *,
    version: tuple[int, ...],
    listen: Endpoint,
    host_key: PurePosixPath,
    authorized_keys: tuple[PurePosixPath, ...],
    root: bool,
) -> str:
    """Return the sshd_config of a git server for this version of OpenSSH: only readers' keys can log in.

    MaxStartups is high because a pull opens several connections, and fifty developers may pull at once.
    """
    lines = [
        f"ListenAddress {listen.authority}",
        f"HostKey {quoted(host_key)}",
        f"AuthorizedKeysFile {' '.join(quoted(path).replace('%', '%%') for path in authorized_keys)}",
        f"AllowUsers {listen.user}",
        *KEYS_ONLY,
        f"PermitRootLogin {'forced-commands-only' if root else 'no'}",
        "DisableForwarding yes",
        "PermitTTY no",
        "SetEnv SHLVL=1",  # makes bash a nested shell, which skips start-up files: these may print or be slow
        "MaxStartups 1000",
    ]
    if version >= PENALTIES_SINCE:
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


GIT_SSH = GitServer()
