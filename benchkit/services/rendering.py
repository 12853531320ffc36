"""From the services of a cell, as a scenario writes them, to services rendered for the hosts they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError
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


@dataclass(frozen=True)
class TypedService:
    """A service whose options its backend has checked."""

    name: str
    backend: Backend
    options: ServiceOptions
    source: SourceMap = field(compare=False, repr=False)
    """Lines of its options in the scenario, for messages."""


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
            raise InputError(service.source.fault(("listen",), said))
        seen[host, port] = service.name


def _rendered(service: TypedService, request: Request) -> Service:
    try:
        made = service.backend.render(request)
    except FieldError as error:
        raise InputError(service.source.fault((error.field,), error.what), hint=error.hint) from None
    held = replace(made.process, quota=request.place.quota)
    return replace(made, process=held, outage=service.options.outage in (True, service.name))
