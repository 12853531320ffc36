"""The reverse proxy that developers use: nginx before the module proxy, with TLS and access control if it has users.

Credentials stop here: the module proxy gets no password, and no request of a user without the right to it. Versions in
the module proxy's cache never change, so they can be served from its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import Field, model_validator

from benchkit.errors import FieldError, UnsupportedError
from benchkit.models.levels import Name
from benchkit.resources import shipped
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.endpoint import Endpoint, Protocol
from benchkit.services.go_modules.access import AccessRight, PasswordFile, access_rules, netrc_path
from benchkit.services.go_modules.certificate import CertificateFile, certificate_path
from benchkit.services.go_modules.module_paths import PathPattern
from benchkit.services.go_modules.proxy import CACHE, DOWNLOADS
from benchkit.services.go_modules.ssh import PRIVATE_FILE
from benchkit.services.nginx import ADMIN_SOCKET, nginx_arguments, relative_authority, worker_user
from benchkit.services.nginx_config import quoted, render_config
from benchkit.services.nginx_version import parse_version_output
from benchkit.services.service import AdminPage, File, Instruction, Process, Service, SetupCommand

TEMPLATE = PurePosixPath("go-module-proxy") / "site.conf.j2"
CHECK_TIMEOUT_S = 10.0


class ReverseProxyOptions(ServiceOptions):
    """Options of an nginx in front of a module proxy."""

    proxy: Name = Field(description="the module proxy, on the same host", examples=["proxy"])
    private: tuple[PathPattern, ...] = Field(
        default=(),
        description="module paths that need a right; the same as the proxy's",
        examples=[["mycompany.com/go"]],
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
        """Return https if there are passwords, because the go command sends them over nothing else."""
        return "https" if options.users else "http"

    def programs(self, options: ReverseProxyOptions) -> tuple[str, ...]:
        """Return nginx."""
        del options
        return ("nginx",)

    def connects_to(self, options: ReverseProxyOptions) -> tuple[str, ...]:
        """Return the module proxy."""
        return (options.proxy,)

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
        admin = Endpoint(place.host, "http", path=folder / ADMIN_SOCKET)
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
            rights=list(access_rules(options.users, options.private)),
            passwords=passwords.name if options.users else None,
            certificate=certificate.name,
            key=key.name,
            files=str(PurePosixPath("..", options.proxy, CACHE, DOWNLOADS)) if options.serve_files else None,
            admin=quoted(admin.authority),
        )
        secrets = (
            File(
                passwords,
                PasswordFile(server, tuple(options.users)),
                PRIVATE_FILE,
                place.service_account[0] if place.service_account else None,
            ),
            File(certificate, CertificateFile(server, "certificate")),
            File(key, CertificateFile(server, "key"), PRIVATE_FILE),
        )
        argv = nginx_arguments(nginx.path, version, config)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=folder,
            files=(File(config, text.encode()), *(secrets if options.users else ())),
            checks=(),
            process=Process(argv, cpus, nofile),
            endpoint=server,
            admin=AdminPage("nginx", admin, "/"),
            parallelism=workers,
            setup_commands=(SetupCommand((*argv, "-t", "-q"), CHECK_TIMEOUT_S),),
            instructions=_instructions(server, options),
        )


def _instructions(server: Endpoint, options: ReverseProxyOptions) -> tuple[Instruction, ...]:
    if not options.users:
        return ()
    return (
        Instruction("certificate to trust (SSL_CERT_FILE, or the system's store)", str(certificate_path(server))),
        *(Instruction(f"lines for the ~/.netrc of {user}", str(netrc_path(server, user))) for user in options.users),
    )


MODULE_SITE = ReverseProxy()
