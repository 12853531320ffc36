"""Capabilities of hosts, and the places of services and load generators on them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from benchkit.errors import InputError, UnsupportedError
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.tuning import TuningPlan
from benchkit.models.base import Cpus
from benchkit.models.facts import HostFacts
from benchkit.plan.tuning_plan import nofile_limit
from benchkit.services.placement import CpuQuota, HostProgram, ServicePlacement, is_address, is_loopback

EXTRA_FILES = 64
"""Open files that a service or load tool needs in addition to one per connection: libraries, logs, its own sockets."""

NOFILE_UNLIMITED = 1 << 20
"""Limit of open files on a host that sets none: the kernel's default maximum (fs.nr_open, proc(5))."""


@dataclass(frozen=True)
class HostCapabilities:
    """A host as it is during the run: its facts, and the settings that tuning gives it."""

    spec: HostSpec
    facts: HostFacts
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings that tuning sets."""
    tuned_nofile: int | None = None
    """Limit of open files that tuning sets for benchkit's processes."""

    @property
    def nofile(self) -> int:
        """Largest number of open files of a process."""
        return self.tuned_nofile or self.facts.nofile_hard or NOFILE_UNLIMITED

    def sysctl(self, key: str) -> str | None:
        """Return a kernel setting as it is during the run, or None if it does not exist or was not read."""
        return self.tuned.get(key) or self.facts.sysctls.get(key)

    @property
    def address(self) -> str:
        """Address at which other hosts reach its services, and which these bind to.

        The inventory's `service_address`; else its `address` if the host itself has it. A name, or an address that is
        translated on the way, becomes the first of the host's own that is neither loopback nor link-local. Raises
        InputError if there is none.
        """
        if self.spec.service_address is not None:
            return str(self.spec.service_address)
        own = [address for interface in self.facts.interfaces for address in interface.addresses]
        given = self.spec.address
        if is_address(given) and (is_loopback(given) or given in own):
            return given
        for address in own:
            if not (is_loopback(address) or ipaddress.ip_address(address).is_link_local):
                return address
        raise InputError(
            "no address that other hosts can reach",
            where=self.spec.name,
            hint="name it in the inventory: service_address: 10.0.0.1",
        )


def with_tuning(host: HostCapabilities, tuning: Iterable[TuningPlan]) -> HostCapabilities:
    """Return the capabilities of a host once this tuning is applied."""
    plans = [plan for plan in tuning if plan.host == host.spec.name]
    tuned = {key: value for plan in plans for key, value in plan.values.items()}
    nofile = nofile_limit(host.spec.name, plans) or host.tuned_nofile
    return replace(host, tuned={**host.tuned, **tuned}, tuned_nofile=nofile)


def place_on(
    host: HostCapabilities, folder: PurePosixPath, role: str, cpus: Cpus, quota: float | None = None
) -> ServicePlacement:
    """Return the place of a service on a host, with the role's CPU quota if the host can enforce one.

    Raises UnsupportedError if the host has too few CPUs for the role.
    """
    facts = host.facts
    if facts.goarch is None:
        raise UnsupportedError(f"{host.spec.name}: Go does not build for {facts.machine}")
    place = ServicePlacement(
        host=host.spec.name,
        address=host.address,
        cpus=facts.cpus,
        folder=folder,
        user=facts.user,
        root=facts.root,
        service_account=facts.service_account,
        goos=facts.os,
        goarch=facts.goarch,
        nofile=host.nofile,
        programs={name: program(host, name) for name in facts.programs},
        quota=CpuQuota(role, quota) if quota is not None and facts.cpu_groups else None,
        has_cpu_groups=bool(facts.cpu_groups),
    )
    return replace(place, cpus=place.select_cpus(cpus, f"role {role}: cpus"))


def program(host: HostCapabilities, name: str) -> HostProgram:
    """Return an executable of the host, by its name in facts or inventory."""
    fact = host.facts.programs[name]
    named = None
    if name in host.spec.programs:
        named = f"named by {host.spec.written or 'the inventory'}: hosts.{host.spec.name}.programs.{name}"
    return HostProgram(fact.path, version_numbers(fact.version), fact.version_output, named)


def version_numbers(version: str | None) -> tuple[int, ...]:
    """Return the numbers at the start of a version, for comparison: `1.22.1` → (1, 22, 1); empty if unknown."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version or "")
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def local_ports(host: HostCapabilities) -> int | None:
    """Return how many local ports the host has for connections to one address (ip(7), ip_local_port_range)."""
    match (host.sysctl("net.ipv4.ip_local_port_range") or "").split():
        case [first, last]:
            return int(last) - int(first) + 1
    return None
