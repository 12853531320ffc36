"""What has to be built for hosts, as data to be shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchkit.services.backend import File, GoSource


@dataclass(frozen=True)
class Build:
    """A program that the controller builds, and the hosts it goes to."""

    program: str
    target: str
    """`linux/amd64`."""
    go_version: str | None
    """None: the one that its module pins."""
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        """For people: `vegeta for linux/amd64 (load1, load2)`."""
        go = f" with Go {self.go_version}" if self.go_version else ""
        return f"{self.program} for {self.target}{go} ({', '.join(self.hosts)})"


def builds(files: Iterable[tuple[str, File]]) -> tuple[Build, ...]:
    """The programs among files of hosts, each once for a target, in the order in which they are met."""
    wanted: dict[GoSource, list[str]] = {}
    for host, file in files:
        if isinstance(file.content, GoSource):
            hosts = wanted.setdefault(file.content, [])
            if host not in hosts:
                hosts.append(host)
    return tuple(
        Build(_name(source), f"{source.goos}/{source.goarch}", source.go_version, tuple(hosts))
        for source, hosts in wanted.items()
    )


def _name(source: GoSource) -> str:
    """The folder that the program comes from: a module's, or that of one of several programs in it."""
    return source.package.removeprefix("./") if source.package.startswith("./") else source.module.name
