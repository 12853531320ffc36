"""The programs that have to be built for hosts, as data that a plan shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchkit.services.command_build import BuiltFolder
from benchkit.services.service import File, Folder, GoSource


@dataclass(frozen=True)
class Build:
    """A program that the controller builds, and the hosts that get it."""

    program: str
    target: str
    """`linux/amd64`."""
    go_version: str | None
    """None: the release that its module pins."""
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line such as `vegeta for linux/amd64 (load1, load2)`."""
        go = f" with Go {self.go_version}" if self.go_version else ""
        return f"{self.program} for {self.target}{go} ({', '.join(self.hosts)})"


def list_builds(files: Iterable[tuple[str, File | Folder]]) -> tuple[Build, ...]:
    """Return the programs among the files of hosts, each once for a target, in order of first use."""
    hosts_of: dict[GoSource | BuiltFolder, list[str]] = {}
    for host, file in files:
        if isinstance(file.content, GoSource | BuiltFolder):
            hosts = hosts_of.setdefault(file.content, [])
            if host not in hosts:
                hosts.append(host)
    return tuple(
        Build(_program_name(source), f"{source.goos}/{source.goarch}", _go_version(source), tuple(hosts))
        for source, hosts in hosts_of.items()
    )


def _go_version(source: GoSource | BuiltFolder) -> str | None:
    return source.go_version if isinstance(source, GoSource) else None


def _program_name(source: GoSource | BuiltFolder) -> str:
    """Return the command that builds it, or the name of its folder: of the module, or one of several programs in it."""
    if isinstance(source, BuiltFolder):
        return str(source)
    return source.package.removeprefix("./") if source.package.startswith("./") else source.module.name
