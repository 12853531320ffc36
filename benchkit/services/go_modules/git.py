"""Git over SSH: bare repositories behind an OpenSSH server of their own, which lets its readers read and nothing else."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.models.levels import Name
from benchkit.services.backend import Backend, File, Preparation, Process, Request, Service, ServiceOptions
from benchkit.services.go_modules.git_stream import Repository, stream
from benchkit.services.go_modules.ssh import PRIVATE, SshKey, host_key, reader_key, server_config

EXECUTABLE = 0o755
MAKING_S = 120.0
"""A repository of a hundred versions takes 30 ms; a thousand big ones may take their time."""

RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\*?$")]
"""`module1`; with a star at its end, all names that begin so stand for the one repository."""


class GitOptions(ServiceOptions):
    """A git server with repositories that are made for it."""

    repositories: Mapping[RepositoryName, Repository] = Field(min_length=1)
    readers: tuple[Name, ...] = Field(
        default=("proxy",), min_length=1, description="who may read: names under which services are given keys"
    )


@dataclass(frozen=True)
class _Placed:
    """A repository on its host: named by its content, so that it is made once, however many cells have it."""

    name: str
    content: bytes
    folder: PurePosixPath
    stream: PurePosixPath


def render(request: Request) -> Service:
    """Sshd in the foreground, and behind it a script that reads repositories."""
    options, place = request.options, request.place
    if not isinstance(options, GitOptions):
        raise TypeError(f"{request.name}: options of another backend")
    folder, sshd = place.folder, place.program("sshd")
    config, key, gate, maker = (folder / name for name in ("sshd_config", "host_key", "read.sh", "make.sh"))
    keys = {reader: folder / f"reader_{reader}.pub" for reader in options.readers}
    repositories = _placed(options.repositories, folder)
    text = server_config(
        version=sshd.version,
        listen=request.endpoint,
        host_key=key,
        authorized_keys=tuple(keys.values()),
        root=place.root,
    )
    only = f'command="{gate}",restrict '
    argv = (sshd.path, "-D", "-e", "-f", str(config))
    cpus = place.take_cpus(options.cpus, "cpus")
    git = place.program("git").path
    return Service(
        name=request.name,
        backend="git-ssh",
        host=place.host,
        folder=folder,
        files=(
            File(config, text.encode()),
            File(key, SshKey(host_key(request.endpoint), "private"), PRIVATE),
            *(
                File(path, SshKey(reader_key(request.endpoint, reader), "public", before=only))
                for reader, path in keys.items()
            ),
            File(gate, gate_script(git, repositories).encode(), EXECUTABLE),
            File(maker, make_script(git, repositories).encode(), EXECUTABLE),
            *(File(each.stream, each.content) for each in repositories),
        ),
        checks=(),
        process=Process(argv, cpus, place.take_files(options.nofile)),
        endpoint=request.endpoint,
        forks=True,
        preparations=(
            Preparation(("/bin/sh", str(maker)), MAKING_S),
            Preparation((*argv[:1], "-t", *argv[3:]), MAKING_S),
        ),
    )


def _placed(repositories: Mapping[str, Repository], folder: PurePosixPath) -> tuple[_Placed, ...]:
    kept = folder.parent.parent / "repositories"
    placed = []
    for name, repository in repositories.items():
        plain = name.rstrip("*-")
        content = stream(plain, repository)
        digest = hashlib.sha256(content).hexdigest()[:16]
        placed.append(_Placed(name, content, kept / f"{plain}-{digest}.git", folder / f"{plain}-{digest}.stream"))
    return tuple(placed)


def gate_script(git: str, repositories: tuple[_Placed, ...]) -> str:
    """What runs instead of any command that a reader asks for: reading a repository that there is.

    Names that stand for themselves come before those with a star.
    """
    ordered = sorted(repositories, key=lambda each: each.name.endswith("*"))
    cases = "\n".join(f"{each.name}) repository={shlex.quote(str(each.folder))} ;;" for each in ordered)
    return f"""\
#!/bin/sh
# git asks for: git-upload-pack '/name'
wanted=${{SSH_ORIGINAL_COMMAND#git-upload-pack \\'}}
if [ "$wanted" = "${{SSH_ORIGINAL_COMMAND-}}" ]; then
  echo "repositories are only read here" >&2
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
  echo "no repository is called $name" | tr -c '[:print:]\\n' '?' >&2
  exit 1
fi
exec {shlex.quote(git)} upload-pack --strict "$repository"
"""


def make_script(git: str, repositories: tuple[_Placed, ...]) -> str:
    """Makes the repositories that are not there yet, each appearing whole."""
    makes = "\n".join(f"make {shlex.quote(str(each.folder))} {shlex.quote(str(each.stream))}" for each in repositories)
    return f"""\
#!/bin/sh
set -eu
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git() {{ {shlex.quote(git)} "$@"; }}
make() {{
  if [ -d "$1" ]; then return; fi
  mkdir -p "${{1%/*}}"
  part="$1.part.$$"
  git init --quiet --bare --template= "$part"
  git -C "$part" symbolic-ref HEAD refs/heads/main
  git -C "$part" fast-import --quiet --done <"$2"
  mv "$part" "$1"
}}
{makes}
"""


def _programs(_: ServiceOptions) -> tuple[str, ...]:
    return ("sshd", "git")


GIT_SSH = Backend("git-ssh", GitOptions, render, protocol="ssh", programs=_programs)
