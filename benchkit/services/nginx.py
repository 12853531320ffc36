"""The nginx of the host, started with a prefix and a configuration of benchkit's own.

Where root starts it, its workers run as an unprivileged user that the host has (`ServicePlacement.service_account`;
none is created), as under any distribution's configuration. That user may not enter benchkit's work directory, which
stays private (0700), and often not even the home folder around it. So nginx is started in the folder of its service.
All paths that workers open (files, temporary folders, sockets of upstreams, passwords) are relative to it (prefix
`./`). The kernel checks only the folders on a relative path, and the ones below the work directory let everybody
through (0711). Nobody gains access from outside. Within the stack, workers read what everybody may read
(configurations, pages, programs), and no keys, which are root's (0600). The master reads keys before it starts workers.
Sockets of upstreams are shared by mode, and the password file, which workers read at each request, belongs to their
user.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.files import shipped
from benchkit.models.base import CpuCount, Name
from benchkit.models.protocol import Protocol, TlsOptions, is_http2
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.builds import BuiltFolder
from benchkit.services.certificates import authority_file, tls_paths, verified_name
from benchkit.services.command import SourceOptions
from benchkit.services.git_source import GitState, resolve_ref
from benchkit.services.placement import Endpoint, ServicePlacement, is_loopback
from benchkit.services.server_options import admin_endpoint
from benchkit.services.service import AdminPage, ConfigTest, Service, ServiceFile, ServiceProcess
from benchkit.services.templates import quoted, render_config

HELLO = b"Hello World\n"


def hello_body(size: int) -> bytes:
    """Return a body of `size` bytes: HELLO repeated and truncated, as `backends/kit/response.go` makes it."""
    return (HELLO * (size // len(HELLO) + 1))[:size]


_CORE = re.compile(r"\bnginx/([0-9]+(?:\.[0-9]+)*)")
_FORK = re.compile(r"version:\s*[A-Za-z]+/([0-9]+\.[0-9]+\.[0-9]+)")

# First releases of nginx with a feature, by its change log.
ERROR_LOG_OPTION = (1, 19, 5)
"""With `-e FILE`, the log until the configuration is read; before, nginx also opens the log of the host's own."""
HTTP2_DIRECTIVE = (1, 25, 1)
"""With the directive `http2 on`, which replaced `listen … http2`."""


def parse_version_output(text: str | None) -> tuple[int, ...] | None:
    """Return the version of nginx from what a program prints for `-v`; None where the program is not an nginx.

    Forks state the version of nginx that they are based on. OpenResty does so by its own first three numbers.
    """
    match = _CORE.search(text or "") or _FORK.search(text or "")
    return None if match is None else tuple(int(number) for number in match[1].split("."))


PositiveCount = Annotated[int, Field(strict=True, gt=0)]
CountOrZero = Annotated[int, Field(strict=True, ge=0)]
HostName = Annotated[
    str, StringConstraints(strict=True, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$")
]
UrlPath = Annotated[str, StringConstraints(strict=True, pattern=r"^/[A-Za-z0-9._~/-]+$")]
BinaryName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]

BUILD = (
    "auto/configure --with-http_stub_status_module --without-http_rewrite_module --without-http_gzip_module "
    "&& make && cp objs/nginx {out}/"
)
"""Build of nginx in its repository: a C compiler and make are all that it needs."""

CACHE = "cache"
"""Folder of cached responses in the service's folder."""

UPSTREAM_PROTOCOLS: tuple[Protocol, ...] = ("http1", "https1", "fastcgi")
"""Protocols in which nginx passes requests on: there is a template for each."""

PURPOSES = ("upstream", "file_bytes", "status", "empty_gif", "lua_bytes")

COMBINED_PURPOSES = ["upstream", "file_bytes"]
"""Purposes that one nginx may have together."""


class NginxOptions(ServiceOptions):
    """nginx in front of another service, or as a server of a file, of a script, or of its status page.

    The defaults are from the published set-up of 2013, nginx against Go. A configuration of your own is started by the
    backend `command`.
    """

    upstream: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="the service to which requests are passed, by its protocol; of several, each in turn",
        examples=["app", ["app", "other"]],
    )
    virtual_hosts: Mapping[HostName, Name] = Field(
        default_factory=dict,
        description="further virtual hosts: the service for requests to each host name; all others go to `upstream`",
        examples=[{"two.example": "other"}],
    )
    paths: Mapping[UrlPath, Name] = Field(
        default_factory=dict,
        description="requests below these paths go to other services, over HTTP/1.1; all others to `upstream`",
        examples=[{"/users": "users"}],
    )
    file_bytes: Annotated[int, Field(strict=True, ge=0, le=1 << 24)] | None = Field(
        default=None,
        description="serve a file of this many bytes, the body that benchkit's servers send at that size; with `upstream`: "
        "as /index.html, with other requests passed on",
        examples=[1024],
    )
    status: bool = Field(default=False, description="serve the status page (stub_status)")
    empty_gif: bool = Field(
        default=False, description="serve a GIF of one pixel from memory (ngx_http_empty_gif_module)"
    )
    lua_bytes: Annotated[int, Field(strict=True, ge=1, le=1 << 24)] | None = Field(
        default=None,
        description="serve a string of this many bytes from a Lua script; needs ngx_http_lua_module (Debian: "
        "libnginx-mod-http-lua)",
        examples=[12],
    )
    binary: BinaryName = Field(default="nginx", description="the host's nginx by the inventory's name for it")
    source: SourceOptions | None = Field(
        default=None,
        description="version to build on the controller from a clone of nginx's repository, for HTTP/1.1 without gzip; absent: "
        "the host's nginx",
        examples=[{"git": "../nginx", "ref": "release-1.29.7"}],
    )
    workers: CpuCount | Literal["auto"] = Field(default="auto", description="auto, all: one for each of its CPUs")
    worker_connections: PositiveCount = Field(
        default=10000, description="connections of each worker, those to upstreams included"
    )
    multi_accept: bool = Field(default=True, description="accept all waiting connections at once")
    accept_mutex: bool = Field(
        default=True,
        description="let workers accept connections in turn: nginx's own default until 1.11.3; `reuseport` overrides it",
    )
    reuseport: bool = Field(default=False, description="a listening socket for each worker")
    backlog: PositiveCount | None = Field(
        default=None, description="accept queue requested from the kernel; absent: nginx's 511", examples=[4096]
    )
    keepalive_requests: PositiveCount = Field(
        default=10000, description="requests after which a connection of a client is closed"
    )
    upstream_keepalive: CountOrZero | None = Field(
        default=300,
        description="idle connections to the upstream that each worker keeps; 0: a new one for each request; null: what this "
        "nginx does by default",
    )
    cache_s: PositiveCount | None = Field(
        default=None,
        description="keep the responses of HTTP upstreams for this many seconds; absent: no cache",
        examples=[60],
    )
    gzip: bool = Field(
        default=False, description="compress responses of at least 20 bytes for clients that accept it (level 1)"
    )
    open_file_cache: CountOrZero = Field(default=200000, description="entries; 0: no cache")

    @model_validator(mode="after")
    def _require_one_purpose(self) -> Self:
        given = [name for name in PURPOSES if getattr(self, name) not in (None, False)]
        if not given or (len(given) > 1 and given != COMBINED_PURPOSES):
            raise ValueError(
                f"needs one of {', '.join(PURPOSES)}, or upstream with file_bytes; found {' and '.join(given) or 'none'}"
            )
        for name in ("virtual_hosts", "paths", "cache_s"):
            if getattr(self, name) and self.upstream is None:
                raise ValueError(f"{name} needs an upstream")
        if self.source is not None and (self.protocol != "http1" or self.gzip or self.lua_bytes):
            raise ValueError("source: what is built has neither TLS, HTTP/2, gzip nor Lua")
        return self

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Services that requests are passed to in turn, unless they are for another virtual host."""
        if self.upstream is None:
            return ()
        return (self.upstream,) if isinstance(self.upstream, str) else self.upstream


class NginxBackend(Backend[NginxOptions]):
    """nginx or one of its forks: a rendered configuration, `nginx -t`, and the master process in the foreground."""

    name = "nginx"
    options = NginxOptions
    protocols = frozenset({"http1", "https1", "h2", "h2c", "h3"})

    def programs(self, options: NginxOptions) -> tuple[str, ...]:
        """Return the nginx that its host must have: none where it is optional, or built from source."""
        return () if options.optional or options.source else (options.binary,)

    def connects_to(self, options: NginxOptions) -> tuple[str, ...]:
        """Return the upstreams of all virtual hosts."""
        return tuple(dict.fromkeys((*options.upstreams, *options.virtual_hosts.values(), *options.paths.values())))

    def resolve(self, options: NginxOptions, source: SourceMap) -> NginxOptions:
        """Return the options with the absolute path of the clone."""
        if options.source is None:
            return options
        clone = source.file(options.source.git, "source", "git").resolve()
        return options.model_copy(update={"source": options.source.model_copy(update={"git": str(clone)})})

    def render(self, request: RenderRequest[NginxOptions]) -> Service:
        """Return one nginx."""
        options, place, tls = request.options, request.place, request.endpoint.tls
        built = None if options.source is None else _source_state(options.source)
        version = _nginx_version(options, place) if built is None else ()
        is_quic = options.protocol == "h3"
        if is_quic and options.tls.early_data:
            raise UnsupportedError("tls.early_data: benchkit does not configure nginx to take it; nethttp takes it")
        cpus = place.select_cpus(options.cpus, "cpus")
        workers = options.workers if isinstance(options.workers, int) else len(cpus)
        admin = admin_endpoint(place)
        virtual_hosts = _virtual_hosts(request)
        config, paths = place.folder / "nginx.conf", tls_paths(place.folder)
        logs = {kind: paths.key.with_name(f"{kind}.log") for kind in ("full", "resumed")}
        upstream_ca = paths.authority.with_name("upstream-ca.pem")
        purpose = (
            "status" if options.status else "gif" if options.empty_gif else "lua" if options.lua_bytes else "files"
        )
        if virtual_hosts[0].protocol is not None:
            purpose = "fastcgi" if virtual_hosts[0].protocol == "fastcgi" else "http"
        text = render_config(
            shipped("configs") / "nginx" / f"{purpose}.conf.j2",
            options=options,
            folder=".",
            user=worker_user(place),
            workers=workers,
            nofile=place.nofile,
            listen=quoted(request.endpoint.authority),
            # A worker knows only its own connections of QUIC, so that each worker needs a socket for its datagrams.
            reuseport=options.reuseport or (is_quic and workers > 1),
            tls=tls,
            http2=is_http2(options.protocol),
            has_http2_directive=version >= HTTP2_DIRECTIVE,
            quic=is_quic,
            certificate=paths.certificate.relative_to(place.folder),
            certificate_key=paths.key.relative_to(place.folder),
            full_log=logs["full"].relative_to(place.folder),
            resumed_log=logs["resumed"].relative_to(place.folder),
            virtual_hosts=virtual_hosts,
            upstream_ca=upstream_ca.relative_to(place.folder),
            admin=quoted(admin.authority),
        )
        files = [ServiceFile(config, text.encode())]
        if options.file_bytes is not None:
            files.append(ServiceFile(place.folder / "html" / "index.html", hello_body(options.file_bytes)))
        if (upstream_tls := virtual_hosts[0].tls) is not None:
            files.append(authority_file(upstream_tls, upstream_ca))
        if built is not None:
            build = BuiltFolder(("sh", "-c", BUILD), Path(), place.goos, place.goarch, built)
            files.append(ServiceFile(place.folder, build))
        program = place.program(options.binary).path if built is None else str(place.folder / "nginx")
        argv = nginx_arguments(program, version, config)
        # An nginx before 1.25, or without http_v3_module, rejects `listen … quic`.
        test = ConfigTest((*argv, "-t", "-q"), config, is_optional=options.optional or is_quic)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=tuple(files),
            config_tests=(test,) if built is None else (),
            process=ServiceProcess(argv, cpus, place.nofile),
            endpoint=request.endpoint,
            admin=AdminPage("nginx", admin, "/", logs if tls is not None else {}),
            parallelism=workers,
            fresh_files=tuple(logs.values()) if tls is not None else (),
            scratch_folders=(place.folder / CACHE,) if options.cache_s else (),
        )


def nginx_arguments(program: str, version: tuple[int, ...], config: PurePosixPath) -> tuple[str, ...]:
    """Return the command line of an nginx that is started in the folder of this configuration.

    It reads the configuration, takes that folder as prefix and logs to its standard error.
    """
    log = ("-e", "stderr") if version >= ERROR_LOG_OPTION else ()
    return (program, "-p", "./", "-c", config.name, *log)


def worker_user(place: ServicePlacement) -> str | None:
    """Return user and group of the workers, as the directive `user` has them; None where root does not start nginx."""
    if not place.root:
        return None
    return " ".join(place.service_account) if place.service_account else place.user


def relative_authority(endpoint: Endpoint, folder: PurePosixPath) -> str:
    """Return the address of a service for an nginx that runs in `folder`: `10.0.0.1:8080` or `unix:../app/app.sock`."""
    if endpoint.path is None:
        return endpoint.authority
    return f"unix:{posixpath.relpath(endpoint.path, folder)}"


def _source_state(source: SourceOptions) -> GitState:
    """Return the state to build. Raises UnsupportedError without a clone, FieldError where it has no such ref."""
    if not Path(source.git).is_dir():
        raise UnsupportedError(
            f"{source.ref}: the controller has no clone of nginx at {source.git}",
            hint=f"git clone https://github.com/nginx/nginx {source.git}",
        )
    try:
        return resolve_ref(Path(source.git), source.ref)
    except InputError as error:
        raise FieldError("source.ref", error.summary) from None


def _nginx_version(options: NginxOptions, place: ServicePlacement) -> tuple[int, ...]:
    """Return the version of the nginx that the host has under that name.

    Raises UnsupportedError where it has none, FieldError where the program is not an nginx.
    """
    program = place.program(options.binary)
    version = parse_version_output(program.version_output)
    if version is None:
        message = f"{program.path} on {place.host} is not nginx: `-v` prints {program.version_output!r}"
        raise FieldError("binary", message, hint=program.hint(options.binary))
    return version


@dataclass(frozen=True)
class VirtualHost:
    """A virtual host, for templates: its name (`_`: any other), and the upstream that its requests are passed to."""

    name: str
    upstream: str
    servers: tuple[str, ...]
    """Addresses of the upstream's servers; empty: it has no upstream."""
    protocol: Protocol | None
    tls: TlsOptions | None = None
    """Options of the upstream's TLS; None without TLS."""
    tls_name: str | None = None
    """Name that the upstream's certificate must be valid for; None without TLS."""
    path: str | None = None
    """Path of all virtual hosts below which requests go to the upstream; None: a virtual host."""


def _virtual_hosts(request: RenderRequest[NginxOptions]) -> tuple[VirtualHost, ...]:
    """Return the virtual hosts, first the one for all other names.

    Raises FieldError for an upstream that nginx cannot reach, or whose protocol it is not configured for.
    """
    options, folder = request.options, request.place.folder
    hosts = {"_": [_upstream(request, "upstream", name) for name in options.upstreams]}
    hosts |= {host: [_upstream(request, "virtual_hosts", name)] for host, name in options.virtual_hosts.items()}
    below = {path: _upstream(request, "paths", name) for path, name in options.paths.items()}
    every = [endpoint for endpoints in hosts.values() for endpoint in endpoints]
    protocols = list(dict.fromkeys(each.protocol for each in (*every, *below.values())))
    protocol = protocols[0] if protocols else None
    if len(protocols) > 1:
        raise FieldError("upstream", f"found {' and '.join(protocols)}; all upstreams have to speak the same protocol")
    if len({each.tls for each in every}) > 1:
        raise FieldError("upstream", "the upstreams differ in their TLS; nginx is configured for one kind")
    if options.cache_s is not None and protocol == "fastcgi":
        raise FieldError("cache_s", "found a FastCGI upstream; only responses of HTTP upstreams are kept")
    if below and protocol != "http1":
        raise FieldError("paths", f"the upstreams speak {protocol}; requests by path are passed on only over HTTP/1.1")
    return (
        *(
            VirtualHost(
                host,
                "backend" if number == 1 else f"backend_{number}",
                tuple(quoted(relative_authority(endpoint, folder)) for endpoint in endpoints),
                protocol,
                endpoints[0].tls if endpoints else None,
                _tls_name(endpoints),
            )
            for number, (host, endpoints) in enumerate(hosts.items(), 1)
        ),
        *(
            VirtualHost("_", f"path_{number}", (quoted(relative_authority(endpoint, folder)),), protocol, path=path)
            for number, (path, endpoint) in enumerate(below.items(), 1)
        ),
    )


def _tls_name(upstreams: Sequence[Endpoint]) -> str | None:
    """Return the name that the certificates of these upstreams are valid for; None without TLS.

    Raises UnsupportedError for several names: nginx verifies one.
    """
    names = list(dict.fromkeys(verified_name(each) for each in upstreams if each.tls is not None))
    if len(names) > 1:
        raise UnsupportedError(f"upstream: certificates of {' and '.join(names)}; nginx verifies one name for all")
    return names[0] if names else None


def _upstream(request: RenderRequest[NginxOptions], field: str, name: str) -> Endpoint:
    upstream, host = request.peers[name], request.place.host
    is_one_machine = upstream.path is None and is_loopback(request.place.address)  # hosts with loopback addresses
    if upstream.is_loopback and upstream.host != host and not is_one_machine:
        raise FieldError(
            field,
            f"{name} listens on {upstream.authority} of {upstream.host}, where {host} cannot reach it",
            hint="give it a plain port, to listen on its host's address",
        )
    if upstream.protocol not in UPSTREAM_PROTOCOLS:
        supported = ", ".join(UPSTREAM_PROTOCOLS)
        raise UnsupportedError(f"{field}: {name} speaks {upstream.protocol}; nginx is configured here for {supported}")
    return upstream


NGINX = NginxBackend()
