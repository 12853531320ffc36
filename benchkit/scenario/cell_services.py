"""The services of a cell as typed models, checked as far as that is possible without hosts."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.models.protocol import is_tls
from benchkit.scenario.model import Scenario
from benchkit.services.certificates import resolve_tls, resolve_trust
from benchkit.services.external import EXTERNAL, ExternalOptions, ExternalService
from benchkit.services.registry import BACKENDS, service_options
from benchkit.services.rendering import ServiceSpec


def typed_services(
    document: Document, entry: str, scenario: Scenario
) -> tuple[tuple[ServiceSpec, ...], tuple[ExternalService, ...]]:
    """Return the services of a stack with typed options, and the external ones; the load goes to the service `entry`.

    `document` holds the stack's services, levels filled in. Raises InputError, naming file, line and field, for unknown
    backends, roles and services, options that a backend does not have or accept, and a port used twice.
    """
    typed = [_typed_service(name, document.at(name)) for name in document.data]
    services = [each for each in typed if isinstance(each, ServiceSpec)]
    external = [each for each in typed if isinstance(each, ExternalService)]
    faults = [
        *_role_faults(services, scenario),
        *_peer_faults(services, external),
        *_port_faults(services),
        *_entry_faults(services, entry),
    ]
    if faults:
        raise InputError("\n".join(faults))
    return tuple(services), tuple(external)


def _typed_service(name: str, document: Document) -> ServiceSpec | ExternalService:
    wanted = document.data.get("backend")
    if wanted is None:
        raise InputError(document.fault((), f"service {name}: backend is missing; {suggestion('', service_options())}"))
    if wanted == EXTERNAL:
        return _external_service(name, document)
    if wanted not in BACKENDS:
        raise InputError(
            document.fault(
                ("backend",), f"no backend {wanted!r}; {BACKENDS.why_unknown(str(wanted), service_options())}"
            )
        )
    backend = BACKENDS[wanted]
    options = document.validated(backend.options)
    options = options.model_copy(update={"tls": resolve_tls(options.tls, document.source.at("tls"))})
    options = backend.resolve(options, document.source)
    return ServiceSpec(name, backend, options, document.source)


def _external_service(name: str, document: Document) -> ExternalService:
    options = document.validated(ExternalOptions)
    tls = resolve_trust(options.tls, document.source.at("tls")) if is_tls(options.spoken) else None
    return ExternalService(name, options.url, options.spoken, tls, document.source)


def _role_faults(services: list[ServiceSpec], scenario: Scenario) -> Iterator[str]:
    for service in services:
        if (role := service.options.role) not in scenario.roles:
            yield service.source.fault(("role",), f"no role {role!r}; {suggestion(role, scenario.roles)}")


def _peer_faults(services: list[ServiceSpec], external: list[ExternalService]) -> Iterator[str]:
    names = [*(service.name for service in services), *(service.name for service in external)]
    for service in services:
        others = [name for name in names if name != service.name]
        for peer in service.backend.connects_to(service.options):
            if peer not in others:
                yield service.source.fault((), f"no other service {peer!r} in this stack; {suggestion(peer, others)}")


def _port_faults(services: list[ServiceSpec]) -> Iterator[str]:
    users: dict[tuple[str, int], str] = {}
    for service in services:
        if service.options.listen.port is None:
            continue
        socket = service.options.role, service.options.listen.port
        if socket in users:
            yield service.source.fault(("listen",), f"port {socket[1]} is already used by service {users[socket]!r}")
        users[socket] = service.name


def _entry_faults(services: list[ServiceSpec], entry: str) -> Iterator[str]:
    for service in services:
        protocol = service.protocol
        if service.name == entry and protocol == "fastcgi":
            yield service.source.fault(
                ("backend",), f"the load goes to this service, and no load tool speaks {protocol}"
            )
