"""Hosts as places for services: what their facts mean for what is rendered, and what they cannot carry."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from benchkit.errors import InputError, UnsupportedError
from benchkit.hosts.inventory import HostSpec
from benchkit.models.cpus import Cpus
from benchkit.models.facts import HostFacts
from benchkit.services.backend import Program, Quota, ServicePlacement

FILES_APART = 64
"""Open files that a service or load tool needs beside one for each connection: libraries, logs, its own sockets."""

NOFILE_UNLIMITED = 1 << 20
"""What is asked for where a host sets no limit: the kernel's own default ceiling (fs.nr_open, proc(5))."""


@dataclass(frozen=True)
class HostCapabilities:
    """A host of the run as planning sees it."""

    spec: HostSpec
    facts: HostFacts
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings that the run's tuning gives it."""
    tuned_nofile: int | None = None
    """Open files that the tuning lets each process of ours have."""

    @property
    def nofile(self) -> int:
        """Open files that a process may have."""
        return self.tuned_nofile or self.facts.nofile_hard or NOFILE_UNLIMITED

    def sysctl(self, key: str) -> str | None:
        """A kernel setting as it will be during the run; None where the host has none, or it was not asked for."""
        return self.tuned.get(key) or self.facts.sysctls.get(key)

    @property
    def address(self) -> str:
        """The address at which other hosts reach its services, and which these bind to.

        The inventory's `service_address`; else its `address`, where the host has it itself; else (a name, or an address
        that is translated on the way) the first of the host's own that is not for itself or its link alone. Raises
        InputError where there is none.
        """
        if self.spec.service_address is not None:
            return str(self.spec.service_address)
        own = [address for interface in self.facts.interfaces for address in interface.addresses]
        given = _ip(self.spec.address)
        if given is not None and (given.is_loopback or str(given) in own):
            return str(given)
        for address in own:
            ip = _ip(address)
            if ip is not None and not (ip.is_loopback or ip.is_link_local):
                return address
        raise InputError(
            "no address that other hosts could reach",
            where=self.spec.name,
            hint="name it in the inventory: service_address: 10.0.0.1",
        )


def place_on(ground: HostCapabilities, folder: PurePosixPath, role: str, cpus: Cpus) -> ServicePlacement:
    """A place of its own for a service on a host. Raises UnsupportedError where the host has too few CPUs for the role."""
    facts = ground.facts
    if facts.goarch is None:
        raise UnsupportedError(f"{ground.spec.name}: Go does not build for {facts.machine}")
    place = ServicePlacement(
        host=ground.spec.name,
        address=ground.address,
        cpus=facts.cpus,
        folder=folder,
        user=facts.user,
        root=facts.root,
        goos=facts.os,
        goarch=facts.goarch,
        nofile=ground.nofile,
        programs={name: program(ground, name) for name in facts.programs},
    )
    return replace(place, cpus=place.take_cpus(cpus, f"role {role}: cpus"))


def with_quota(place: ServicePlacement, role: str, cpus: float | None, ground: HostCapabilities) -> ServicePlacement:
    """The place with the role's share of its CPUs, where its host can hold to one; see `quota_not_applied`."""
    return place if cpus is None or not ground.facts.cpu_groups else replace(place, quota=Quota(role, cpus))


def quota_not_applied(role: str, cpus: float | None, ground: HostCapabilities) -> str | None:
    """Why a host will not hold the services of a role to its quota, for people; None where it will, or there is none."""
    if cpus is None or ground.facts.cpu_groups:
        return None
    return (
        f"{ground.spec.name}: not applied, {ground.facts.user} may make no control group with the CPU controller there: "
        f"quota {cpus:g} of role {role}"
    )


def program(ground: HostCapabilities, name: str) -> Program:
    """An executable of the host, by its name in facts or inventory."""
    fact = ground.facts.programs[name]
    named = None
    if name in ground.spec.programs:
        named = f"named by {ground.spec.written or 'the inventory'}: hosts.{ground.spec.name}.programs.{name}"
    return Program(fact.path, version_numbers(fact.version), fact.said, named)


def too_many(connections: int, carriers: Iterable[HostCapabilities], clients: Iterable[HostCapabilities]) -> str | None:
    """Why these hosts cannot hold so many connections, if they cannot: `clients` open them, all `carriers` hold them."""
    for ground in carriers:
        if connections + FILES_APART > ground.nofile:
            return f"{connections} connections: {ground.spec.name} may have {ground.nofile} files open at most"
    for ground in clients:
        ports = local_ports(ground)
        if ports is not None and connections > ports:
            return f"{connections} connections: {ground.spec.name} has {ports} local ports for one address"
    return None


def version_numbers(version: str | None) -> tuple[int, ...]:
    """The numbers that a version begins with, for comparing: `1.22.1` → (1, 22, 1); none where it is unknown."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version or "")
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def local_ports(ground: HostCapabilities) -> int | None:
    """How many local ports the host has for connections to one address (ip(7), ip_local_port_range)."""
    match (ground.sysctl("net.ipv4.ip_local_port_range") or "").split():
        case [first, last]:
            return int(last) - int(first) + 1
    return None


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
