"""What every Go server of ours has in common: options, command line, and an admin listener on a socket of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from benchkit.document import SourceMap
from benchkit.errors import InputError, UnsupportedError
from benchkit.models.cpus import CpuCount
from benchkit.resources import BACKENDS
from benchkit.services.backend import (
    Admin,
    Backend,
    File,
    GoSource,
    Process,
    Request,
    Service,
    ServiceOptions,
    ServicePlacement,
)
from benchkit.services.endpoint import Endpoint, Protocol
from benchkit.services.go_build import oldest_release, release_numbers

EXECUTABLE = 0o755

ADMIN_SOCKET = "_admin.sock"
"""In the service's folder; no service's own socket is called so, because names begin with a letter."""

LONGEST_SOCKET = 107
"""Bytes of a unix socket's path (unix(7): 108 with its end)."""

VARS = "/debug/vars"

_WORK = re.compile(r"none|loop:(?:0|100000000|[1-9][0-9]{0,7})")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")

_SHARE = re.compile(r"0?\.[0-9]*[1-9][0-9]*|1(?:\.0*)?")
_TIME = re.compile(r"(?=.*[1-9])(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[ -~]*")

FAULTS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "fail": (_SHARE, "fail:SHARE"),
    "hang": (_SHARE, "hang:SHARE"),
    "delay": (_TIME, "delay:TIME"),
    "lock": (_TIME, "lock:TIME"),
    "slow-start": (_TIME, "slow-start:TIME"),
    "open-after": (_TIME, "open-after:TIME"),
    "body": (re.compile("other"), "body:other"),
    "header": (_FIELD, "header:NAME=VALUE"),
}
"""What `-inject-fault` of every backend takes, and how people write it; `backends/kit/fault.go` says what each does."""


def _fault(given: str) -> str:
    kind, _, value = given.partition(":")
    pattern, _ = FAULTS.get(kind, (None, ""))
    if pattern is None or not pattern.fullmatch(value):
        forms = ", ".join(form for _, form in FAULTS.values())
        raise ValueError(f"found {given!r}; allowed: none, {forms} (a share up to 1, a time like 5ms)")
    return given


def _faults(given: object) -> object:
    """One fault, a list of them, or `none`, as a scenario writes them."""
    if given == "none":
        return ()
    return (given,) if isinstance(given, str) else given


Faults = Annotated[tuple[Annotated[str, AfterValidator(_fault)], ...], BeforeValidator(_faults)]


BodySize = Annotated[int, Field(strict=True, ge=0, le=1 << 30)]


def _work(given: str) -> str:
    if not _WORK.fullmatch(given):
        raise ValueError(f"found {given!r}; allowed: none, or loop:N with N up to 100000000")
    return given


def release(given: str) -> str:
    """A release of three numbers, as written. Raises ValueError for any other text."""
    if not _RELEASE.fullmatch(given):
        raise ValueError(f"found {given!r}; allowed: a release in full, three numbers as 1.24.0")
    return given


Release = Annotated[str, AfterValidator(release)]


class ServerOptions(ServiceOptions):
    """What every server of ours takes, whatever it is written in."""

    body_size: BodySize | None = Field(
        default=None, description="bytes of body; absent: the 12 bytes of `Hello World\\n`"
    )
    work: Annotated[str, AfterValidator(_work)] = Field(
        default="none", description="none, or loop:N to add the numbers below N (at most 10^8) for each request"
    )
    inject_fault: Faults = Field(
        default=(), description="for tests: one fault to make on purpose, or a list of them; none by default"
    )


class GoServerOptions(ServerOptions):
    """What every Go server of ours takes."""

    gomaxprocs: CpuCount = Field(default="all", description="threads that run Go code; all: one for each of its CPUs")
    go_version: Release | None = Field(
        default=None, description="Go release to build with, in full as 1.24.0; absent: the one its module pins"
    )


def server_arguments(request: Request, options: ServerOptions) -> list[str]:
    """The command line that all our servers share, after the program's own name."""
    argv = ["-listen", request.endpoint.authority, "-admin", admin_endpoint(request.place).authority]
    argv += ["-work", options.work]
    if options.body_size is not None:
        argv += ["-body-size", str(options.body_size)]
    for fault in options.inject_fault:
        argv += ["-inject-fault", fault]
    return argv


def admin_endpoint(place: ServicePlacement) -> Endpoint:
    """The socket of a service's admin listener, out of reach of every other host.

    Raises UnsupportedError where the host's work directory leaves no room for its path.
    """
    path = place.folder / ADMIN_SOCKET
    if (length := len(bytes(path))) > LONGEST_SOCKET:
        raise UnsupportedError(
            f"{path} on {place.host} has {length} bytes, and the path of a unix socket at most {LONGEST_SOCKET}",
            hint="give the host a shorter workdir in the inventory",
        )
    return Endpoint(place.host, "http", path=path)


def no_arguments(_: Request) -> Sequence[str]:
    """The arguments of a server that takes none beside what all do."""
    return ()


def go_backend(
    program: str,
    options: type[GoServerOptions] = GoServerOptions,
    *,
    protocol: Protocol = "http",
    arguments: Callable[[Request], Sequence[str]] = no_arguments,
) -> Backend:
    """The backend whose source is `backends/<program>`; `arguments` are those it takes beside what all servers do."""

    def render(request: Request) -> Service:
        return render_go_server(request, program, arguments(request))

    return Backend(program, options, render, protocol, settle=partial(settle_release, program=program))


def settle_release(options: ServiceOptions, source: SourceMap, program: str) -> ServiceOptions:
    """The options as they are, if their Go release compiles the program. Raises InputError naming the field."""
    wanted = options.go_version if isinstance(options, GoServerOptions) else None
    oldest = oldest_release(BACKENDS / program)
    if wanted is not None and release_numbers(wanted) < release_numbers(oldest):
        raise InputError(source.fault(("go_version",), f"found {wanted!r}; {program} needs Go {oldest} or newer"))
    return options


def render_go_server(request: Request, program: str, arguments: Sequence[str]) -> Service:
    """A Go server: one executable built on the controller from `backends/<program>`, one process."""
    options, place = request.options, request.place
    if not isinstance(options, GoServerOptions):
        raise TypeError(f"{request.name}: options of another backend")
    binary = place.folder / program
    cpus = place.take_cpus(options.cpus, "cpus")
    threads = len(cpus) if options.gomaxprocs == "all" else options.gomaxprocs
    argv = (str(binary), *server_arguments(request, options), *arguments)
    source = GoSource(BACKENDS / program, place.goos, place.goarch, options.go_version)
    return Service(
        name=request.name,
        backend=program,
        host=place.host,
        folder=place.folder,
        files=(File(binary, source, EXECUTABLE),),
        checks=(),
        process=Process(argv, cpus, place.take_files(options.nofile), {"GOMAXPROCS": str(threads)}),
        endpoint=request.endpoint,
        admin=Admin("expvar", admin_endpoint(place), VARS),
        parallelism=threads,
    )
