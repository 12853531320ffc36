"""Git over SSH: bare repositories behind an OpenSSH server of their own, where readers can read and do nothing else."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.models.base import Name
from benchkit.models.protocol import Protocol
from benchkit.plugins.go_modules.fast_import import Repository, fast_import_stream
from benchkit.plugins.go_modules.ssh import PRIVATE_FILE, SshKeyFile, host_key_name, reader_key_name, server_config
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.go_program import EXECUTABLE
from benchkit.services.service import File, Process, Service, SetupCommand

SETUP_TIMEOUT_S = 120.0
"""A repository of a hundred versions takes 30 ms to create; this is enough for a thousand large ones."""

RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\*?$")]
"""`module1`; with a star at its end, all names that begin like it lead to the one repository."""


class GitServerOptions(ServiceOptions):
    """Options of a git server, with the repositories that are created for it."""

    repositories: Mapping[RepositoryName, Repository] = Field(
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
                File(config, text.encode()),
                File(key, SshKeyFile(host_key_name(server), "private"), PRIVATE_FILE),
                *(
                    File(path, SshKeyFile(reader_key_name(server, reader), "public", prefix=restrictions))
                    for reader, path in reader_keys.items()
                ),
                File(read_script, forced_command_script(git, repositories).encode(), EXECUTABLE),
                File(create_script, creation_script(git, repositories).encode(), EXECUTABLE),
                *(File(repository.stream, repository.content) for repository in repositories),
            ),
            checks=(),
            process=Process(argv, place.select_cpus(options.cpus, "cpus"), place.file_limit(options.nofile)),
            endpoint=server,
            forks_per_request=True,
            setup_commands=(
                SetupCommand(("/bin/sh", str(create_script)), SETUP_TIMEOUT_S),
                SetupCommand((sshd.path, "-t", "-f", str(config)), SETUP_TIMEOUT_S),
            ),
        )


def _place_repositories(repositories: Mapping[str, Repository], folder: PurePosixPath) -> tuple[PlacedRepository, ...]:
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
