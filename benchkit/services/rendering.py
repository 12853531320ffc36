"""Rendering of a cell's services: from options that their backends have validated to services for their hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.models.protocol import HttpProtocol, Protocol
from benchkit.services.backend import AnyBackend, RenderRequest, ServiceOptions
from benchkit.services.certificates import tls_files
from benchkit.services.external import ExternalService
from benchkit.services.http_probe import probe_program
from benchkit.services.placement import CpuQuota, Endpoint, ServicePlacement
from benchkit.services.service import Service


@dataclass(frozen=True)
class ServiceSpec:
    """A service as the scenario wants it, its options validated by its backend."""

    name: str
    backend: AnyBackend
    options: ServiceOptions
    source: SourceMap = field(compare=False, repr=False)
    """Lines of its options in the scenario, for messages."""

    @property
    def protocol(self) -> Protocol:
        """The protocol that the service speaks."""
        return self.backend.protocol(self.options)

    @property
    def programs(self) -> tuple[str, ...]:
        """Executables that the service needs on its host."""
        return self.backend.programs(self.options)


def render_services(
    specs: Sequence[ServiceSpec],
    place: Callable[[ServiceSpec], ServicePlacement],
    external: Sequence[ExternalService] = (),
) -> tuple[Service, ...]:
    """Return the services of a cell rendered for their places, in the order in which they start.

    They may connect to `external` services.
    Raises UnsupportedError where a host cannot run one of them, InputError naming file, line and field of an option
    that does not fit its host.
    """
    for spec in specs:
        _require_protocol(spec)
    places = {spec.name: place(spec) for spec in specs}
    names = [spec.name for spec in specs]
    endpoints = {spec.name: spec.backend.endpoint(spec.name, spec.options, places[spec.name], names) for spec in specs}
    _require_distinct_ports(specs, endpoints)
    peers = endpoints | {service.name: service.endpoint for service in external}
    return tuple(
        _render(spec, RenderRequest(spec.name, spec.options, places[spec.name], endpoints[spec.name], peers))
        for spec in specs
    )


def _require_protocol(spec: ServiceSpec) -> None:
    wanted, backend = spec.options.protocol, spec.backend
    if wanted not in backend.protocols:
        supported = ", ".join(name for name in get_args(HttpProtocol) if name in backend.protocols)
        raise UnsupportedError(f"protocol {wanted}: {backend.name} does not speak it (it speaks: {supported})")
    if wanted == "h3" and spec.options.tls.version != "1.3":
        raise UnsupportedError("tls.version: QUIC includes TLS 1.3 (RFC 9001): set 1.3 for protocol h3")
    if wanted == "h3" and spec.options.listen.port is None:
        raise UnsupportedError("listen: protocol h3 needs a UDP port, not a unix socket")


def _require_distinct_ports(specs: Sequence[ServiceSpec], endpoints: Mapping[str, Endpoint]) -> None:
    """Raise InputError where two services open one port of a host, which several roles may share."""
    users: dict[tuple[str, int], str] = {}
    for spec in specs:
        host, port = endpoints[spec.name].host, endpoints[spec.name].port
        if port is not None and spec.options.host_port is not None:
            other = users.setdefault((host, port), spec.name)
            if other != spec.name:
                message = f"port {port} of {host} is already used by service {other!r}: their roles share the host"
                raise InputError(spec.source.fault(("listen",), message))


def _render(spec: ServiceSpec, request: RenderRequest[ServiceOptions]) -> Service:
    try:
        service = spec.backend.render(request)
        files = [*service.files, *tls_files(request.endpoint, request.place.folder)]
        if service.ready_request is not None and request.endpoint.protocol != "http1":
            files.append(probe_program(request.place))
        service = replace(service, files=tuple(files))
    except FieldError as error:
        raise InputError(spec.source.fault((error.field,), error.what), hint=error.hint) from None
    quota = _quota(spec, request.place) if service.container is None else service.process.quota
    process = replace(service.process, quota=quota)
    return replace(service, process=process, outage=spec.options.outage in (True, spec.name))


def _quota(spec: ServiceSpec, place: ServicePlacement) -> CpuQuota | None:
    """Return the quota of a process: its role's, or a lower one of its own, in a group of its own.

    Raises UnsupportedError where the host can enforce none.
    """
    own = spec.options.quota
    if own is None:
        return place.quota
    if not place.has_cpu_groups:
        raise UnsupportedError(f"quota {own:g}: {place.user} on {place.host} may not create a control group for it")
    if place.quota is not None and place.quota.cpus <= own:
        return place.quota
    return CpuQuota(f"{spec.options.role}-{spec.name}", own, is_own=True)
