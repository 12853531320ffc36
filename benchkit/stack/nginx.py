"""nginx: the host's own executable, started from a prefix and a configuration of ours."""

from __future__ import annotations

from typing import Annotated, Literal

from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import Field

from benchkit.errors import InputError, UnsupportedError
from benchkit.resources import shipped
from benchkit.scenario.model import CpuCount
from benchkit.scenario.names import Name
from benchkit.stack.backend import Backend, File, Process, Request, Service, ServiceOptions

ERROR_LOG_OPTION = (1, 19, 5)
"""From this version on `-e FILE` names the log that is open before the configuration is read (nginx changes 1.19.5);
without it nginx also opens the one of the host's own installation."""

Count = Annotated[int, Field(strict=True, gt=0)]


class NginxOptions(ServiceOptions):
    """nginx in front of another service of the stack; the defaults are those of the published set-up."""

    upstream: Name = Field(description="the service that requests are passed to")
    workers: CpuCount | Literal["auto"] = Field(default="auto", description="auto, all: one for each of its CPUs")
    worker_connections: Count = 10000
    multi_accept: bool = True
    upstream_keepalive: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=300, description="idle connections to the upstream that each worker keeps; 0: one a request"
    )
    keepalive_timeout_s: Annotated[int, Field(strict=True, ge=0)] = 300
    keepalive_requests: Count = 10000
    open_file_cache: Count = 200000
    backlog: Count | None = Field(default=None, description="accept queue asked of the kernel; absent: nginx's 511")


def render(request: Request) -> Service:
    """One nginx as a service: its configuration, `nginx -t`, and the master process in the foreground."""
    options, place = request.options, request.place
    if not isinstance(options, NginxOptions):
        raise TypeError(f"{request.name}: options of another backend")
    upstream = request.peers[options.upstream]
    if upstream.is_loopback and upstream.host != place.host:
        raise InputError(
            f"upstream {options.upstream} listens on {upstream.authority} of {upstream.host}, where {place.host} "
            "cannot reach it",
            hint="give it a plain port, to listen on its host's address",
        )
    if upstream.protocol != "http":
        raise UnsupportedError(f"nginx speaks http to its upstream here; {options.upstream} speaks {upstream.protocol}")
    nginx = place.program("nginx")
    cpus = place.take_cpus(options.cpus, "cpus")
    workers = len(cpus) if options.workers in ("auto", "all") else options.workers
    config = place.folder / "nginx.conf"
    text = render_config(
        "proxy.conf.j2",
        options=options,
        folder=str(place.folder),
        user=place.user if place.root else None,
        workers=workers,
        nofile=place.nofile,
        listen=request.endpoint.authority,
        upstream=upstream.authority,
    )
    log = ("-e", "stderr") if nginx.version >= ERROR_LOG_OPTION else ()
    argv = (nginx.path, "-p", f"{place.folder}/", "-c", str(config), *log)
    return Service(
        name=request.name,
        backend="nginx",
        host=place.host,
        folder=place.folder,
        files=(File(config, text.encode()),),
        checks=((*argv, "-t", "-q"),),
        process=Process(argv, cpus, place.nofile),
        endpoint=request.endpoint,
    )


def render_config(template: str, **values: object) -> str:
    """A template of `configs/nginx/` filled in; a name that it uses and nobody gives is an error."""
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    source = (shipped("configs") / "nginx" / template).read_text()
    return environment.from_string(source).render(values)


def _upstreams(options: ServiceOptions) -> tuple[str, ...]:
    return (options.upstream,) if isinstance(options, NginxOptions) else ()


NGINX = Backend("nginx", NginxOptions, render, programs=("nginx",), tied_to=_upstreams)
