"""The interface of a backend: one kind of server, its options, and how a service of it is rendered.

A backend touches no host. It turns options and a place into a `Service`, which `benchkit.services.deploy` deploys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from benchkit.document import SourceMap
from benchkit.errors import UnsupportedError
from benchkit.models.base import Cpus, Frozen, Name
from benchkit.models.protocol import HttpProtocol, Protocol, TlsOptions, is_tls
from benchkit.services.placement import FIRST_UNPRIVILEGED_PORT, Endpoint, ListenOption, ServicePlacement
from benchkit.services.service import Service


class BackendOptions(Frozen):
    """The option that every service of a stack has: its backend."""

    backend: str = Field(
        description="kind of server; each has options of its own: see `benchkit fields nginx` and the like",
        examples=["nethttp"],
    )


class ServiceOptions(BackendOptions):
    """Options of every service that benchkit starts; a backend adds its own."""

    role: Name = Field(default="sut", description="role of the host that it runs on")
    listen: ListenOption = Field(
        description="port on its host's address, address with port, or `unix`: a socket in the service's folder",
        examples=[8080],
    )
    cpus: Cpus = Field(
        default="all", description="CPUs it may run on: the first n of its role, or those at these places (`2-3`)"
    )
    protocol: HttpProtocol = Field(
        default="http1",
        description="protocol that it speaks: http1, https1 (HTTP/1.1 over TLS), h2 (HTTP/2 over TLS), h2c (HTTP/2 "
        "without TLS), h3 (HTTP/3, on a UDP port). benchkit/services/README.md says which a backend can speak",
        examples=["h2"],
    )
    tls: TlsOptions = Field(
        default_factory=TlsOptions,
        description="its TLS, where its protocol has one",
        examples=[{"version": "1.2", "key": "rsa-2048", "resumption": False}],
    )
    quota: Annotated[float, Field(gt=0, le=1024)] | None = Field(
        default=None,
        description="CPU time, in CPUs, that this service alone may use; its role's quota applies if that is lower, or if this "
        "is absent",
        examples=[0.5],
    )
    optional: bool = Field(
        default=False,
        description="if its host lacks its program, its cells are unsupported and the others run",
    )
    outage: bool | Name = Field(
        default=False,
        description="stop it after the warm-up, to measure the others without it; a name: only if it is the name of "
        "this service",
    )

    @property
    def host_port(self) -> int | None:
        """Port of its host that it takes; None: it takes none."""
        return self.listen.port


OptionsT = TypeVar("OptionsT", bound=ServiceOptions)
OptionsT_co = TypeVar("OptionsT_co", bound=ServiceOptions, covariant=True)


@dataclass(frozen=True)
class RenderRequest(Generic[OptionsT_co]):
    """A service to be rendered: its name, resolved options, place, socket, and the sockets of its stack by service."""

    name: str
    options: OptionsT_co
    place: ServicePlacement
    endpoint: Endpoint
    peers: Mapping[str, Endpoint]


class Backend(ABC, Generic[OptionsT]):
    """One kind of server. A new one sets `name` and `options`, implements `render`, and overrides what it needs."""

    name: str
    """The value of `backend` in scenarios."""
    options: type[OptionsT]
    """The model of its options."""
    protocols: frozenset[HttpProtocol] = frozenset({"http1"})
    """Values of the option `protocol` that its services can speak."""
    own_protocol: Protocol | None = None
    """The protocol of servers that do not speak HTTP."""
    needs: tuple[str, ...] = ()
    """Executables of the host that its services need whatever their options, by their names in facts or inventory."""
    has_own_profiler: bool = False
    """True if its services serve CPU profiles themselves (net/http/pprof); perf profiles all others."""

    @abstractmethod
    def render(self, request: RenderRequest[OptionsT]) -> Service:
        """Return the service, ready to be deployed.

        Raises UnsupportedError where the host cannot run it, FieldError where an option does not fit the host.
        """

    def resolve(self, options: OptionsT, source: SourceMap) -> OptionsT:
        """Return the options with the paths of the files that they name resolved, relative to the scenario's file.

        Raises InputError naming file, line and field.
        """
        del source
        return options

    def local_files(self, options: OptionsT) -> tuple[Path, ...]:
        """Return the files and folders of the controller that resolved options name; runs record their contents."""
        del options
        return ()

    def protocol(self, options: OptionsT) -> Protocol:
        """Return the protocol that a service with these options speaks."""
        return self.own_protocol or options.protocol

    def endpoint(self, name: str, options: OptionsT, place: ServicePlacement, names: Sequence[str]) -> Endpoint:
        """Return the socket of a service; `names` has all services of its stack, in their order.

        Raises UnsupportedError where its user may not open it.
        """
        del names
        protocol, listen, tls = (
            self.protocol(options),
            options.listen,
            options.tls if is_tls(options.protocol) else None,
        )
        if listen.port is None:
            return Endpoint(place.host, protocol, path=place.folder / f"{name}.sock", tls=tls)
        port = listen.port + place.port_shift
        if port < FIRST_UNPRIVILEGED_PORT and not place.root:
            raise UnsupportedError(f"listen {port}: {place.user} on {place.host} may not open a port below 1024")
        user = place.user if protocol == "ssh" else None
        return Endpoint(place.host, protocol, address=listen.address or place.address, port=port, user=user, tls=tls)

    def programs(self, options: OptionsT) -> tuple[str, ...]:
        """Return the executables that a service with these options needs on its host."""
        del options
        return self.needs

    def connects_to(self, options: OptionsT) -> tuple[str, ...]:
        """Return the names of the services of its stack to which it connects."""
        del options
        return ()


AnyBackend = Backend[Any]
"""A backend whose options are known at run time only, as in the registry."""
