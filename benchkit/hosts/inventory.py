"""The inventory: the hosts, their addresses and logins, and their roles.

A file names its hosts under `hosts`:

    hosts:
      server: {address: 192.0.2.10, user: bench, roles: [sut]}
      client: {address: client.example, jump: gate, roles: [load]}
      gate: {address: gate.example, roles: []}

A host may name executables that replace those on its PATH, or that scenarios use under a new name
(`binary: nginx-mainline`):

        programs: {nginx: /opt/tengine/sbin/nginx, nginx-mainline: /opt/nginx-1.29/sbin/nginx}

Missing values come from `~/.ssh/config`, in which `address` may be an alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, IPvAnyAddress

from benchkit.document import Document, read_document
from benchkit.errors import InputError
from benchkit.files import open_regular
from benchkit.models.base import Frozen
from benchkit.validation import matching

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ADDRESS = re.compile(r"[A-Za-z0-9:\[][A-Za-z0-9._:%\[\]-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@\\-]{0,63}")
_PEM_LINE = 64
MAX_PORT = 65535


def _safe_program(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or text.endswith("/"):
        raise ValueError(f"found {text!r}; allowed: the absolute path of an executable on the host")
    return text


def _safe_workdir(text: str) -> str:
    parts = text.split("/")
    if not text.isprintable() or parts[0] not in ("", "~") or ".." in parts or len(parts) == 1 or not any(parts[1:]):
        raise ValueError(f"found {text!r}; allowed: an absolute path, or one below ~/, without '..'")
    return text


HostName = Annotated[
    str, matching(_NAME, "up to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit")
]
"""A name that is safe in paths, tables and figures."""
Address = Annotated[str, matching(_ADDRESS, "a host name, an alias of ~/.ssh/config, or an IP address")]
User = Annotated[str, matching(_USER, "a login name")]
WorkdirPath = Annotated[str, AfterValidator(_safe_workdir)]
ProgramPath = Annotated[str, AfterValidator(_safe_program)]


class HostFields(Frozen):
    """The fields of a host in an inventory file."""

    address: Address = Field(
        description="host name, IP address, or a Host alias of ~/.ssh/config", examples=["192.0.2.10"]
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=MAX_PORT,
        description="port of its SSH server; absent: as in ~/.ssh/config, else 22",
        examples=[2222],
    )
    user: User | None = Field(
        default=None, description="login name; absent: as in ~/.ssh/config, else yours", examples=["bench"]
    )
    identity: Path | None = Field(
        default=None, description="private key file; its password is never asked for", examples=["~/.ssh/id_ed25519"]
    )
    known_hosts: Path | None = Field(
        default=None, description="file read in addition to the user's known_hosts files", examples=["known_hosts"]
    )
    roles: tuple[HostName, ...] = Field(
        default=(),
        description="roles of the host: sut, load, …; none for a jump host",
        examples=[["sut"]],
    )
    jump: HostName | None = Field(
        default=None, description="jump host: another host of the inventory, with or without roles", examples=["gate"]
    )
    sudo: bool = Field(default=False, description="allow changes that need root, through `sudo -n`")
    workdir: WorkdirPath | None = Field(
        default=None, description="benchkit's folder on the host [default: ~/.benchkit]", examples=["/srv/benchkit"]
    )
    service_address: IPvAnyAddress | None = Field(
        default=None,
        description="address at which other hosts reach its services, where it differs from `address`",
        examples=["10.0.0.1"],
    )
    link_bps: float | None = Field(
        default=None,
        gt=0,
        description="rate of the host's link, bits per second; unknown if absent",
        examples=[1000000000],
    )
    programs: Mapping[HostName, ProgramPath] = Field(
        default_factory=dict,
        description="executables of the host by the names used in scenarios and by benchkit",
        examples=[{"nginx-mainline": "/opt/nginx-1.29/sbin/nginx"}],
    )


class HostSpec(HostFields):
    """One host of an inventory."""

    name: HostName
    written: str | None = Field(default=None, description="file and line in the inventory, for messages")


class Inventory(Frozen):
    """The hosts of a run, with their common limits."""

    hosts: tuple[HostSpec, ...]
    lab: str | None = Field(default=None, description="name of the lab that these hosts form")
    limits: tuple[str, ...] = Field(default=(), description="limits of these hosts: what they cannot isolate or apply")
    not_isolated: tuple[str, ...] = Field(default=(), description="sysctls that a host sees but shares with others")

    def by_role(self, role: str) -> tuple[HostSpec, ...]:
        """Return the hosts with this role, in the inventory's order."""
        return tuple(host for host in self.hosts if role in host.roles)

    def named(self, name: str) -> HostSpec:
        """Return the host of this name. Raises InputError naming the hosts of the inventory."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise InputError(f"no host named {name!r}", hint=f"the inventory has: {', '.join(h.name for h in self.hosts)}")


class InventoryContent(Frozen):
    """The content of an inventory file."""

    hosts: Mapping[HostName, HostFields] = Field(
        min_length=1,
        description="the hosts by name",
        examples=[{"server": {"address": "192.0.2.10", "roles": ["sut"]}}],
    )
    limits: tuple[str, ...] = Field(
        default=(),
        description="limits of these hosts, shown with every result: what they cannot isolate or apply",
        examples=[["Both hosts are virtual machines on one server."]],
    )
    not_isolated: tuple[str, ...] = Field(
        default=(),
        description="kernel settings that a host sees but shares with others, so that they are not applied",
        examples=[["fs.file-max"]],
    )


def load_inventory(path: Path) -> Inventory:
    """Read an inventory file; its relative paths start from its folder.

    Raises InputError naming file, line, field, the value and what is allowed.
    """
    return parse_inventory(read_document(path), path.parent)


def parse_inventory(document: Document, folder: Path) -> Inventory:
    """Convert a document to an inventory; relative paths in it start from `folder`."""
    written = document.validated(InventoryContent)
    for name, fields in written.hosts.items():
        if "roles" not in fields.model_fields_set:
            raise InputError(document.fault(("hosts", name, "roles"), "missing; a jump host has roles: []"))
        if fields.jump is not None and fields.jump not in written.hosts:
            what = f"found {fields.jump!r}; allowed: the name of another host"
            raise InputError(document.fault(("hosts", name, "jump"), what))
    hosts = tuple(
        HostSpec(
            name=name,
            written=str(document.source.origin(("hosts", name))),
            **fields.model_dump(exclude={"identity", "known_hosts"}, exclude_unset=True),
            identity=_path(fields.identity, folder),
            known_hosts=_path(fields.known_hosts, folder),
        )
        for name, fields in written.hosts.items()
    )
    if cycle := _jump_cycle(hosts):
        raise InputError(document.fault(("hosts",), cycle))
    return Inventory(hosts=hosts, limits=written.limits, not_isolated=written.not_isolated)


def require_files(spec: HostSpec) -> None:
    """Raise InputError where a file that the inventory names for a host is missing or of the wrong kind."""
    for field, path in (("identity", spec.identity), ("known_hosts", spec.known_hosts)):
        try:
            start = b"" if path is None else _first_line(path)
        except OSError as error:
            raise InputError(f"cannot read {field} {path}", where=spec.name, why=error.strerror) from None
        if field == "identity" and path is not None and b"PRIVATE KEY-----" not in start:
            raise InputError(f"{field} {path} is not a private key", where=spec.name, hint="name the file without .pub")


def _first_line(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(_PEM_LINE)


def _jump_cycle(hosts: Iterable[HostSpec]) -> str | None:
    by_name = {host.name: host for host in hosts}
    for name in by_name:
        chain = [name]
        while (jump := by_name[chain[-1]].jump) in by_name:
            chain.append(str(jump))
            if chain.count(chain[-1]) > 1:
                return f"the jump hosts form a cycle: {' → '.join(chain)}"
    return None


def _path(path: Path | None, folder: Path) -> Path | None:
    return None if path is None else (folder / path.expanduser()).absolute()
