"""Options, command line and admin socket that all servers of benchkit's own have, in Go and in Node."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, WithJsonSchema

from benchkit.errors import UnsupportedError
from benchkit.services.backend import RenderRequest, ServiceOptions
from benchkit.services.certificates import tls_paths
from benchkit.services.placement import MAX_SOCKET_PATH, Endpoint, ServicePlacement
from benchkit.validation import matching

ADMIN_SOCKET = "_admin.sock"
"""File in the service's folder. No service has a socket of this name, because names begin with a letter."""

VARS = "/debug/vars"

_WORK = re.compile(r"none|loop:(?:0|100000000|[1-9][0-9]{0,7})|block:(?:10000|[1-9][0-9]{0,3})ms")

BodySize = Annotated[int, Field(strict=True, ge=0, le=1 << 30)]


class ServerOptions(ServiceOptions):
    """Options of every server of benchkit's own."""

    body_size: BodySize | None = Field(
        default=None, description="bytes of body; absent: the 12 bytes of `Hello World\\n`", examples=[1024]
    )
    work: Annotated[
        str,
        matching(_WORK, "none, loop:N with N up to 100000000, block:Nms up to 10000ms"),
        WithJsonSchema({"type": "string", "pattern": f"^({_WORK.pattern})$"}),
    ] = Field(
        default="none",
        description="work of each request: none, loop:N to add the numbers below N (at most 10^8), or block:Nms to wait in "
        "the handler (at most 10000ms)",
        examples=["loop:10000", "block:1ms"],
    )
    inject_fault: tuple[str, ...] = Field(
        default=(),
        description="for tests: faults to inject, as the server takes them",
        examples=[["delay:5ms"]],
    )


def server_arguments(request: RenderRequest[ServerOptions]) -> list[str]:
    """Return the arguments that all these servers share, without the program."""
    options = request.options
    argv = ["-listen", request.endpoint.authority, "-admin", admin_endpoint(request.place).authority]
    argv += ["-work", options.work]
    if options.body_size is not None:
        argv += ["-body-size", str(options.body_size)]
    for fault in options.inject_fault:
        argv += ["-inject-fault", fault]
    return argv


def protocol_arguments(request: RenderRequest[ServiceOptions]) -> list[str]:
    """Return the arguments of a server that speaks more than HTTP/1.1; none for HTTP/1.1 without TLS."""
    protocol, tls = request.options.protocol, request.endpoint.tls
    if protocol == "http1":
        return []
    argv = ["-protocol", protocol]
    if tls is None:
        return argv
    paths = tls_paths(request.place.folder)
    argv += ["-tls-certificate", str(paths.certificate), "-tls-key", str(paths.key), "-tls-version", tls.version]
    if tls.ciphers is not None:
        argv += ["-tls-ciphers", tls.ciphers]
    argv.append(f"-tls-resumption={'true' if tls.resumption else 'false'}")
    return [*argv, "-tls-early-data"] if tls.early_data and protocol == "h3" else argv


def admin_endpoint(place: ServicePlacement) -> Endpoint:
    """Return the unix socket of a service's admin page, which other hosts cannot reach.

    Raises UnsupportedError if the path is too long for a unix socket.
    """
    path = place.folder / ADMIN_SOCKET
    if (length := len(bytes(path))) > MAX_SOCKET_PATH:
        raise UnsupportedError(
            f"{path} on {place.host} has {length} bytes, and the path of a unix socket at most {MAX_SOCKET_PATH}",
            hint="give the host a shorter workdir in the inventory",
        )
    return Endpoint(place.host, "http1", path=path)
