"""The services of a cell as typed models, checked as far as that is possible without hosts."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.scenario.cells import Cell
from benchkit.scenario.model import Scenario
from benchkit.services.backend import protocol_of
from benchkit.services.registry import BACKENDS
from benchkit.services.rendering import TypedService


def typed_services(cell: Cell, scenario: Scenario) -> tuple[TypedService, ...]:
    """The services of a cell, checked as far as that is possible without hosts.

    Raises InputError naming file, line and field: unknown backends, roles and services, options a backend does not
    have or take, a port used twice.
    """
    services = [_typed(name, cell.services.at(name)) for name in cell.services.data]
    faults = [
        cell.services.fault(place, message)
        for check in (_role_faults, _tie_faults, _port_faults)
        for place, message in check(services, scenario)
    ]
    faults += [cell.services.fault(place, message) for place, message in _entry_faults(services, cell)]
    if faults:
        raise InputError("\n".join(faults))
    return tuple(services)


def _typed(name: str, document: Document) -> TypedService:
    wanted = document.data.get("backend")
    if wanted is None:
        raise InputError(document.fault((), f"service {name}: backend is missing; {suggestion('', BACKENDS)}"))
    if wanted not in BACKENDS:
        raise InputError(document.fault(("backend",), f"no backend {wanted!r}; {suggestion(str(wanted), BACKENDS)}"))
    backend = BACKENDS[wanted]
    options = backend.settle(document.validated(backend.options), document)
    return TypedService(name, backend, options, document)


Fault = tuple[tuple[str, ...], str]


def _role_faults(services: list[TypedService], scenario: Scenario) -> Iterator[Fault]:
    for service in services:
        if service.options.role not in scenario.roles:
            allowed = suggestion(service.options.role, scenario.roles)
            yield (service.name, "role"), f"no role {service.options.role!r}; {allowed}"


def _entry_faults(services: list[TypedService], cell: Cell) -> Iterator[Fault]:
    for service in services:
        protocol = protocol_of(service.backend, service.options)
        if service.name == cell.entry and protocol == "fastcgi":
            yield (service.name, "backend"), f"the load goes to this service, and no load tool speaks {protocol}"


def _tie_faults(services: list[TypedService], _: Scenario) -> Iterator[Fault]:
    names = [service.name for service in services]
    for service in services:
        others = [name for name in names if name != service.name]
        for tied in service.backend.tied_to(service.options):
            if tied not in others:
                yield (service.name,), f"no other service {tied!r} in this stack; {suggestion(tied, others)}"


def _port_faults(services: list[TypedService], _: Scenario) -> Iterator[Fault]:
    seen: dict[tuple[str, int], str] = {}
    for service in services:
        if service.options.listen.port is None:
            continue
        key = service.options.role, service.options.listen.port
        if key in seen:
            yield (service.name, "listen"), f"port {key[1]} is already that of service {seen[key]!r}"
        seen[key] = service.name
