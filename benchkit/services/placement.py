"""A place for a service on a host: the facts of the host that decide how the service is rendered."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, PlainValidator, StringConstraints

from benchkit.errors import UnsupportedError
from benchkit.models.base import Cpus, cpu_places
from benchkit.models.protocol import Protocol, TlsOptions, is_tls
from benchkit.units import counted

MAX_PORT = 65535
FIRST_UNPRIVILEGED_PORT = 1024
"""Default of net.ipv4.ip_unprivileged_port_start (ip(7)); lower ports need root."""

MAX_SOCKET_PATH = 107
"""Bytes of the path of a unix socket (unix(7): sun_path has 108 bytes, the last of them 0)."""


_ADDRESS_AND_PORT = re.compile(r"\[?(?P<address>[0-9A-Fa-f:.]+)\]?:(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Listen:
    """Option `listen`: `8080` (on the host's address), `127.0.0.1:9000`, or `unix` (a socket in its folder)."""

    address: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, value: object) -> Listen:
        """Parse the `listen` of a scenario. Raises ValueError naming the allowed forms."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT:
            return cls(port=value)
        if value == "unix":
            return cls()
        match = _ADDRESS_AND_PORT.fullmatch(str(value))
        if match and is_address(match["address"]) and 0 < int(match["port"]) <= MAX_PORT:
            return cls(str(ipaddress.ip_address(match["address"])), int(match["port"]))
        raise ValueError(f"found {value!r}; allowed: a port (8080), address:port (127.0.0.1:9000), or unix")


ListenOption = Annotated[
    Listen,
    PlainValidator(
        Listen.parse,
        json_schema_input_type=Annotated[int, Field(gt=0, le=MAX_PORT)]
        | Annotated[str, StringConstraints(pattern=r"^(unix|.+:[0-9]{1,5})$")],
    ),
]
"""`Listen` as a field of a model."""


@dataclass(frozen=True)
class Endpoint:
    """An open socket of a service on a host: TCP address and port, or the path of a unix socket."""

    host: str
    protocol: Protocol
    address: str | None = None
    port: int | None = None
    path: PurePosixPath | None = None
    user: str | None = None
    """User who logs in, where the protocol is ssh."""
    tls: TlsOptions | None = None
    """Options of its TLS; None without TLS, or with a certificate of the backend's own (`module-site`)."""

    @property
    def authority(self) -> str:
        """Address for nginx and the backends: `10.0.0.1:8080`, `[fd00::1]:8080` or `unix:/path`."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.address}]:{self.port}" if ":" in str(self.address) else f"{self.address}:{self.port}"

    @property
    def server_name(self) -> str | None:
        """Name by which clients ask for it, where its options of TLS have one."""
        return None if self.tls is None else self.tls.server_name

    @property
    def host_header(self) -> str:
        """`Host` of a request to it."""
        return self.server_name or self.authority

    @property
    def origin(self) -> str:
        """URL of an HTTP server without a path: `https://10.0.0.1:8443` (RFC 6454)."""
        return f"{'https' if is_tls(self.protocol) else 'http'}://{self.authority}"

    @property
    def is_loopback(self) -> bool:
        """True if only its own host reaches it."""
        return self.address is None or is_loopback(self.address)


def is_address(text: str) -> bool:
    """Return True for an IPv4 or IPv6 address, False for a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Return True if an address is a loopback address; of names, only `localhost` is one."""
    return ipaddress.ip_address(address).is_loopback if is_address(address) else address == "localhost"


@dataclass(frozen=True)
class HostProgram:
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
    """CPU time, in CPUs, that all services of a role share on one host, or that one service has."""

    role: str
    cpus: float
    is_own: bool = False
    """True: one service has it for itself; `role` then names its control group, where it is a process."""


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
    """The hard limit of open files, which each of its processes gets."""
    programs: Mapping[str, HostProgram]
    """Executables of the host that backends may use (nginx, node)."""
    service_account: tuple[str, str] | None = None
    """User and group for processes that root starts and that need no root; None: no root, or no such user there."""
    quota: CpuQuota | None = None
    has_cpu_groups: bool = True
    """False: the host cannot enforce a CPU quota."""
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

    def program(self, name: str) -> HostProgram:
        """Return the executable `name` of the host. Raises UnsupportedError where it is missing."""
        if name not in self.programs:
            raise UnsupportedError(
                f"{self.host} has no {name}",
                hint="`benchkit hosts prepare` installs it where it may; the inventory may name another (programs)",
            )
        return self.programs[name]
