"""From the services of a cell, as a scenario writes them, to services rendered for the hosts they run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from benchkit.document import Document
from benchkit.errors import FieldError, InputError, suggestion
from benchkit.scenario.cells import Cell
from benchkit.scenario.model import Scenario
from benchkit.services.backend import (
    Backend,
    Request,
    Service,
    ServiceOptions,
    ServicePlacement,
    endpoint_of,
    protocol_of,
)
from benchkit.services.endpoint import Endpoint
from benchkit.services.registry import BACKENDS


@dataclass(frozen=True)
class TypedService:
    """A service whose options its backend has checked."""

    name: str
    backend: Backend
    options: ServiceOptions
    document: Document = field(compare=False, repr=False)
    """What the scenario says of it, for messages that name the place."""


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


def render_services(
    services: tuple[TypedService, ...], place: Callable[[TypedService], ServicePlacement]
) -> tuple[Service, ...]:
    """The services of a cell rendered for their places, in the order in which they start.

    Raises UnsupportedError where a host cannot carry one of them, InputError naming file, line and field of an option
    that does not fit its host.
    """
    places = {service.name: place(service) for service in services}
    endpoints: dict[str, Endpoint] = {
        service.name: endpoint_of(
            service.name, service.options, places[service.name], protocol_of(service.backend, service.options)
        )
        for service in services
    }
    _require_ports_apart(services, endpoints)
    return tuple(
        _rendered(
            service, Request(service.name, service.options, places[service.name], endpoints[service.name], endpoints)
        )
        for service in services
    )


def _require_ports_apart(services: tuple[TypedService, ...], endpoints: Mapping[str, Endpoint]) -> None:
    """Roles may share a host. Raises InputError naming file, line and field of a port that two services open there."""
    seen: dict[tuple[str, int], str] = {}
    for service in services:
        host, port = endpoints[service.name].host, endpoints[service.name].port
        if port is None:
            continue
        if (host, port) in seen:
            said = f"port {port} of {host} is already that of service {seen[host, port]!r}: their roles share the host"
            raise InputError(service.document.fault(("listen",), said))
        seen[host, port] = service.name


def _rendered(service: TypedService, request: Request) -> Service:
    try:
        made = service.backend.render(request)
    except FieldError as error:
        raise InputError(service.document.fault((error.field,), error.what), hint=error.hint) from None
    held = replace(made.process, quota=request.place.quota)
    return replace(made, process=held, outage=service.options.outage in (True, service.name))


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
