"""The programs that have to be built for hosts, as data that a plan shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchkit.services.service import File, GoSource


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


def list_builds(files: Iterable[tuple[str, File]]) -> tuple[Build, ...]:
    """Return the programs among the files of hosts, each once for a target, in order of first use."""
    hosts_of: dict[GoSource, list[str]] = {}
    for host, file in files:
        if isinstance(file.content, GoSource):
            hosts = hosts_of.setdefault(file.content, [])
            if host not in hosts:
                hosts.append(host)
    return tuple(
        Build(_program_name(source), f"{source.goos}/{source.goarch}", source.go_version, tuple(hosts))
        for source, hosts in hosts_of.items()
    )


def _program_name(source: GoSource) -> str:
    """Return the name of the folder that the program is built from: the module, or one of several programs in it."""
    return source.package.removeprefix("./") if source.package.startswith("./") else source.module.name
