"""A place for a service on a host: the facts of the host that decide how the service is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.errors import UnsupportedError
from benchkit.models.base import Cpus, cpu_places
from benchkit.units import counted


@dataclass(frozen=True)
class Program:
    """An executable of the host, from its facts."""

    path: str
    version: tuple[int, ...]
    version_output: str | None = None
    """Output of its version option, for programs whose variant is recognised by it."""
    named_by: str | None = None
    """Place in the inventory that names it, for messages; None: found on the PATH."""

    def hint(self, name: str) -> str:
        """Return where the executable `name` comes from, for an error about it."""
        return self.named_by or f"it is the {name} on the PATH there; the inventory may name another (programs)"


@dataclass(frozen=True)
class CpuQuota:
    """CPU time that all services of a role on one host share, in CPUs."""

    role: str
    cpus: float


@dataclass(frozen=True)
class ServicePlacement:
    """The host and folder of a service, and what it may use there."""

    host: str
    address: str
    """The address at which the other hosts reach this one."""
    cpus: tuple[int, ...]
    """The CPUs that the role may use, ascending."""
    folder: PurePosixPath
    """A folder of the service's own on the host, absolute."""
    user: str
    root: bool
    goos: str
    goarch: str
    nofile: int
    """The hard limit of open files."""
    programs: Mapping[str, Program]
    """Executables of the host that backends may use (nginx, node)."""
    service_account: tuple[str, str] | None = None
    """User and group for processes that root starts and that need no root; None: no root, or no such user there."""
    quota: CpuQuota | None = None
    port_shift: int = 0
    """Number that is added to the ports of the scenario, so that stacks of several cells can be up side by side."""

    def select_cpus(self, wanted: Cpus, field_name: str) -> tuple[int, ...]:
        """Return the first `wanted` CPUs of the place, or those at the listed positions.

        Raises UnsupportedError where the place has fewer.
        """
        if wanted == "all":
            return self.cpus
        places = range(wanted) if isinstance(wanted, int) else cpu_places(wanted)
        if max(places) >= len(self.cpus):
            raise UnsupportedError(
                f"{field_name} {wanted}: {self.host} has {counted(len(self.cpus), 'CPU')} for this role"
            )
        return tuple(self.cpus[place] for place in places)

    def file_limit(self, wanted: int | None) -> int:
        """Return the limit of open files: `wanted`, or the host's hard limit.

        Raises UnsupportedError above that limit.
        """
        if wanted is not None and wanted > self.nofile:
            raise UnsupportedError(
                f"nofile {wanted}: {self.user} on {self.host} may have {self.nofile} at most",
                hint="with root, a tuning profile can raise the limit (limits: {nofile: …})",
            )
        return wanted or self.nofile

    def program(self, name: str) -> Program:
        """Return the executable `name` of the host. Raises UnsupportedError where it is missing."""
        if name not in self.programs:
            raise UnsupportedError(f"{self.host} has no {name}", hint="benchkit hosts prepare installs it where it may")
        return self.programs[name]
