"""The reverse proxy that developers use: nginx before the module proxy, with TLS and access control if it has users.

Credentials stop here: the module proxy gets no password, and no request of a user without the right to it. Versions in
the module proxy's cache never change, so they can be served from its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from benchkit.errors import FieldError, UnsupportedError
from benchkit.files import shipped
from benchkit.models.base import Name
from benchkit.models.protocol import Protocol
from benchkit.plugins.go_modules.access import (
    AccessRight,
    PasswordFile,
    SiteCertificate,
    access_rules,
    certificate_path,
    netrc_path,
)
from benchkit.plugins.go_modules.proxy import CACHE, DOWNLOADS, PathPattern, Upstream, upstream_service, upstream_url
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.nginx import ADMIN_SOCKET, nginx_arguments, parse_version_output, relative_authority, worker_user
from benchkit.services.placement import Endpoint
from benchkit.services.service import AdminPage, Instruction, Service, ServiceFile, ServiceProcess, SetupCommand
from benchkit.services.templates import quoted, render_config

TEMPLATE = PurePosixPath("go-module-proxy") / "site.conf.j2"
DENIED_SOCKET = "_denied.sock"
"""Socket in the service's folder at which nginx answers requests without the right to a module."""
TEST_TIMEOUT_S = 10.0
HTTP_PORT, HTTPS_PORT = 80, 443


class ReverseProxyOptions(ServiceOptions):
    """Options of an nginx in front of a module proxy."""

    proxy: Name = Field(description="the module proxy, on the same host", examples=["proxy"])
    private: tuple[PathPattern, ...] = Field(
        default=(),
        description="module paths that need a right; the same as the proxy's",
        examples=[["mycompany.com/go"]],
    )
    upstream: Upstream | None = Field(
        default=None,
        description="the proxy of all other modules: a service of the stack, or a URL. It gets requests for checksum "
        "databases (/sumdb/), if it serves them; absent: they get 404, and the go command asks the database itself",
        examples=["https://proxy.example.org"],
    )
    users: Mapping[Name, AccessRight] = Field(
        default_factory=dict,
        description="users and their rights; none: everything is open to everybody, without TLS",
        examples=[{"alice": {"may_pull": ["mycompany.com/go"]}}],
    )
    serve_files: bool = Field(
        default=False, description="serve the files in the proxy's cache without asking the proxy"
    )
    workers: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="worker processes; absent: one for each CPU", examples=[4]
    )
    worker_connections: Annotated[int, Field(strict=True, gt=0)] = Field(
        default=10000, description="connections of each worker"
    )

    @model_validator(mode="after")
    def _require_private_for_users(self) -> Self:
        if self.users and not self.private:
            raise ValueError("users without private: name the module paths that need a right")
        return self


class ReverseProxy(Backend[ReverseProxyOptions]):
    """One nginx: its configuration, certificate and passwords, and the master process in the foreground."""

    name = "module-site"
    options = ReverseProxyOptions

    def protocol(self, options: ReverseProxyOptions) -> Protocol:
        """Return https1 if there are passwords, because the go command sends them over nothing else."""
        return "https1" if options.users else "http1"

    def programs(self, options: ReverseProxyOptions) -> tuple[str, ...]:
        """Return nginx."""
        del options
        return ("nginx",)

    def connects_to(self, options: ReverseProxyOptions) -> tuple[str, ...]:
        """Return the module proxy, and the upstream proxy if it is in the stack."""
        return tuple(name for name in (options.proxy, upstream_service(options.upstream)) if name)

    def render(self, request: RenderRequest[ReverseProxyOptions]) -> Service:
        """Return one reverse proxy."""
        options, place, server = request.options, request.place, request.endpoint
        proxy, folder = request.peers[options.proxy], place.folder
        if proxy.host != place.host:
            message = f"{options.proxy} is on {proxy.host}, and {request.name} on {place.host}: they must share a host"
            raise FieldError("proxy", message)
        nginx = place.program("nginx")
        version = parse_version_output(nginx.version_output)
        if version is None:
            raise UnsupportedError(f"{nginx.path} on {place.host} is not nginx")
        cpus = place.select_cpus(options.cpus, "cpus")
        workers, nofile = options.workers or len(cpus), place.file_limit(options.nofile)
        admin = Endpoint(place.host, "http1", path=folder / ADMIN_SOCKET)
        config, passwords = folder / "nginx.conf", folder / "passwords"
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        text = render_config(
            shipped("configs") / TEMPLATE,
            user=worker_user(place),
            workers=workers,
            worker_connections=options.worker_connections,
            nofile=nofile,
            listen=quoted(server.authority),
            proxy=quoted(relative_authority(proxy, folder)),
            database=_database(options.upstream, request.peers) if options.upstream else None,
            denied=DENIED_SOCKET,
            rights=list(access_rules(options.users, options.private)),
            passwords=passwords.name if options.users else None,
            certificate=certificate.name,
            key=key.name,
            files=str(PurePosixPath("..", options.proxy, CACHE, DOWNLOADS)) if options.serve_files else None,
            admin=quoted(admin.authority),
        )
        secrets = (
            ServiceFile(
                passwords,
                PasswordFile(server, tuple(options.users)),
                PRIVATE_FILE,
                place.service_account[0] if place.service_account else None,
            ),
            ServiceFile(certificate, SiteCertificate(server, "certificate")),
            ServiceFile(key, SiteCertificate(server, "key"), PRIVATE_FILE),
        )
        argv = nginx_arguments(nginx.path, version, config)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=folder,
            files=(ServiceFile(config, text.encode()), *(secrets if options.users else ())),
            process=ServiceProcess(argv, cpus, nofile),
            endpoint=server,
            admin=AdminPage("nginx", admin, "/"),
            inner_sockets=(folder / DENIED_SOCKET,),
            parallelism=workers,
            setup_commands=(SetupCommand((*argv, "-t", "-q"), TEST_TIMEOUT_S),),
            instructions=_instructions(server, options),
        )


@dataclass(frozen=True)
class DatabaseUpstream:
    """The server that passes requests on to checksum databases, as nginx's configuration needs it."""

    scheme: str
    server: str
    """Address and port."""
    host: str
    """Host and port as the URL has them, for the request."""
    name: str
    """Host alone, for TLS."""
    prefix: str
    """Path before `/sumdb/`."""


def _database(upstream: str, peers: Mapping[str, Endpoint]) -> DatabaseUpstream:
    """Return the server of an upstream, which is a service of the stack or a URL.

    What it sends is signed by the database, and the go command checks that; nginx does not check its certificate.
    """
    url = urlsplit(upstream_url(upstream, peers))
    host = f"[{url.hostname}]" if ":" in str(url.hostname) else str(url.hostname)
    port = url.port or (HTTPS_PORT if url.scheme == "https" else HTTP_PORT)
    return DatabaseUpstream(url.scheme, f"{host}:{port}", url.netloc, host, url.path.rstrip("/"))


def _instructions(server: Endpoint, options: ReverseProxyOptions) -> tuple[Instruction, ...]:
    if not options.users:
        return ()
    return (
        Instruction("certificate to trust (SSL_CERT_FILE, or the system's store)", str(certificate_path(server))),
        *(Instruction(f"lines for the ~/.netrc of {user}", str(netrc_path(server, user))) for user in options.users),
    )


MODULE_SITE = ReverseProxy()
