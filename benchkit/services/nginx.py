"""nginx: the host's own executable, started from a prefix and a configuration of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.models.cpus import CpuCount
from benchkit.models.levels import Name
from benchkit.services.backend import (
    Admin,
    Backend,
    Check,
    File,
    Process,
    Request,
    Service,
    ServiceOptions,
    ServicePlacement,
)
from benchkit.services.endpoint import Endpoint, Protocol, is_loopback
from benchkit.services.nginx_config import check_template, render_config
from benchkit.services.nginx_version import Flavour, flavour
from benchkit.services.response_bodies import hello

Count = Annotated[int, Field(strict=True, gt=0)]
CountOrNone = Annotated[int, Field(strict=True, ge=0)]
BinaryName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]

ADMIN_SOCKET = "_status.sock"
"""In the service's folder; no service's own socket is called so, because names begin with a letter."""

LONGEST_SOCKET_PATH = 107
"""unix(7): sun_path has 108 bytes, the last of them 0."""

SPOKEN: tuple[Protocol, ...] = ("http", "fastcgi")
"""What it can pass requests on in: there is a template for each."""

PURPOSES = ("upstream", "file_bytes", "status", "template")


class NginxOptions(ServiceOptions):
    """nginx in front of another service, as a server of a file, or of its status page; or as a template has it.

    The defaults are those of the published set-up of 2013, nginx against Go.
    """

    upstream: Name | None = Field(default=None, description="the service that requests are passed to, by its protocol")
    file_bytes: Annotated[int, Field(strict=True, ge=0, le=1 << 24)] | None = Field(
        default=None, description="serve a file of so many bytes, the body of our other servers at that size"
    )
    status: bool = Field(default=False, description="serve the status page (stub_status)")
    template: str | None = Field(
        default=None, description="configuration of one's own: a Jinja template, relative to the scenario's file"
    )
    binary: BinaryName = Field(default="nginx", description="the host's nginx by the inventory's name for it")
    workers: CpuCount | Literal["auto"] = Field(default="auto", description="auto, all: one for each of its CPUs")
    pin_workers: bool = Field(default=False, description="each worker on one CPU of its own, in turn")
    worker_connections: Count = 10000
    multi_accept: bool = True
    accept_mutex: bool = False
    reuseport: bool = Field(default=False, description="a listening socket for each worker")
    backlog: Count | None = Field(default=None, description="accept queue asked of the kernel; absent: nginx's 511")
    keepalive: bool = Field(default=True, description="whether clients may keep connections")
    keepalive_timeout_s: Count = 300
    keepalive_requests: Count = 10000
    upstream_keepalive: CountOrNone = Field(
        default=300, description="idle connections to the upstream that each worker keeps; 0: one a request"
    )
    sendfile: bool = True
    tcp_nopush: bool = True
    tcp_nodelay: bool = True
    open_file_cache: CountOrNone = Field(default=200000, description="entries; 0: no cache")

    @model_validator(mode="after")
    def _one_purpose(self) -> Self:
        given = [name for name in PURPOSES[:3] if getattr(self, name) not in (None, False)]
        if len(given) > 1 or not (given or self.template):
            raise ValueError(f"needs one of {', '.join(PURPOSES)}; found {' and '.join(given) or 'none'}")
        return self


def render(request: Request) -> Service:
    """One nginx as a service: its configuration, `nginx -t`, and the master process in the foreground."""
    options, place = request.options, request.place
    if not isinstance(options, NginxOptions):
        raise TypeError(f"{request.name}: options of another backend")
    nginx = _flavour(options.binary, place)
    if options.reuseport and nginx.reuseport is None:
        raise UnsupportedError(f"reuseport: {place.host} has {nginx}, which cannot; nginx can from 1.9.1 on")
    cpus = place.take_cpus(options.cpus, "cpus")
    workers = options.workers if isinstance(options.workers, int) else len(cpus)
    nofile = place.take_files(options.nofile)
    admin = Endpoint(place.host, "http", path=place.folder / ADMIN_SOCKET)
    upstream = _upstream(request, options)
    config = place.folder / "nginx.conf"
    text = _rendered(
        options,
        upstream.protocol if upstream else "status" if options.status else "files",
        folder=str(place.folder),
        user=place.user if place.root else None,
        workers=workers,
        worker_cpus=[cpus[worker % len(cpus)] for worker in range(workers)] if options.pin_workers else [],
        nofile=nofile,
        listen=request.endpoint.authority,
        reuseport=nginx.reuseport if options.reuseport else None,
        upstream=upstream.authority if upstream else None,
        admin=admin.authority if len(str(admin.path)) <= LONGEST_SOCKET_PATH else None,
    )
    files = [File(config, text.encode())]
    if options.file_bytes is not None:
        files.append(File(place.folder / "html" / "index.html", hello(options.file_bytes)))
    log = ("-e", "stderr") if nginx.error_log_option else ()
    argv = (place.program(options.binary).path, "-p", f"{place.folder}/", "-c", str(config), *log)
    return Service(
        name=request.name,
        backend="nginx",
        host=place.host,
        folder=place.folder,
        files=tuple(files),
        checks=(Check((*argv, "-t", "-q"), config, "template" if options.template else None),),
        process=Process(argv, cpus, nofile),
        endpoint=request.endpoint,
        admin=Admin("nginx", admin, "/") if admin.authority in text else None,  # a template may have none
        parallelism=workers,
    )


def _flavour(binary: str, place: ServicePlacement) -> Flavour:
    """Which nginx the host has under that name. Raises FieldError for what is none."""
    program = place.program(binary)
    found = flavour(program.said)
    if found is None:
        said = f"says {program.said!r}" if program.said else "says nothing: is it built for this host's architecture?"
        raise FieldError(
            "binary",
            f"{program.path} on {place.host} is no nginx: `-v` {said}",
            hint=program.named or f"it is the {binary} on the PATH there; the inventory may name another (programs)",
        )
    return found


def _upstream(request: Request, options: NginxOptions) -> Endpoint | None:
    if options.upstream is None:
        return None
    upstream, host = request.peers[options.upstream], request.place.host
    one_machine = upstream.path is None and is_loopback(request.place.address)  # hosts that are reached at loopback
    if upstream.is_loopback and upstream.host != host and not one_machine:
        raise FieldError(
            "upstream",
            f"{options.upstream} listens on {upstream.authority} of {upstream.host}, where {host} cannot reach it",
            hint="give it a plain port, to listen on its host's address",
        )
    if upstream.protocol not in SPOKEN:
        said = f"{options.upstream} speaks {upstream.protocol}; nginx is set up here for {' and '.join(SPOKEN)}"
        raise FieldError("upstream", said)
    return upstream


def _rendered(options: NginxOptions, purpose: str, **values: object) -> str:
    """The configuration: from the scenario's own template, or from the one for what nginx is to do."""
    if options.template is not None:
        try:
            return render_config(Path(options.template), options=options, **values)
        except InputError as error:
            raise FieldError("template", error.what) from None
    return render_config(f"{purpose}.conf.j2", options=options, **values)


def _settle(options: ServiceOptions, source: SourceMap) -> ServiceOptions:
    """Find the template beside the file that names it."""
    if not isinstance(options, NginxOptions) or options.template is None:
        return options
    path = (Path(source.origin(("template",)).source).parent / options.template).absolute()
    try:
        check_template(path)
    except InputError as error:
        raise InputError(source.fault(("template",), ": ".join(filter(None, (error.what, error.why))))) from None
    return options.model_copy(update={"template": str(path)})


def _programs(options: ServiceOptions) -> tuple[str, ...]:
    return (options.binary,) if isinstance(options, NginxOptions) else ()


def _upstreams(options: ServiceOptions) -> tuple[str, ...]:
    return (options.upstream,) if isinstance(options, NginxOptions) and options.upstream else ()


NGINX = Backend("nginx", NginxOptions, render, programs=_programs, settle=_settle, tied_to=_upstreams)
