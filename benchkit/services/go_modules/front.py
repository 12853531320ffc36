"""The site that developers reach: nginx before the module proxy, over TLS and with rights where users are named.

Credentials stop here: the proxy behind gets no request of anybody without a right, and no password. Versions that are in
the proxy's cache can be answered with the files themselves, for they never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import Field, model_validator

from benchkit.errors import FieldError, UnsupportedError
from benchkit.models.levels import Name
from benchkit.resources import shipped
from benchkit.services.backend import (
    Admin,
    Backend,
    File,
    Guidance,
    Preparation,
    Process,
    Request,
    Service,
    ServiceOptions,
)
from benchkit.services.endpoint import Endpoint, Protocol
from benchkit.services.go_modules.access import Passwords, Right, netrc_file, rights_map
from benchkit.services.go_modules.certificate import Certificate, certificate_file
from benchkit.services.go_modules.module_paths import PathPattern
from benchkit.services.go_modules.proxy import CACHE, DOWNLOADS
from benchkit.services.nginx import ADMIN_SOCKET
from benchkit.services.nginx_config import render_config
from benchkit.services.nginx_version import flavour

TEMPLATE = PurePosixPath("go-module-proxy") / "site.conf.j2"
PRIVATE_FILE = 0o600
CHECK_S = 10.0


class SiteOptions(ServiceOptions):
    """nginx before a module proxy."""

    proxy: Name = Field(description="the module proxy, on the same host")
    private: tuple[PathPattern, ...] = Field(
        default=(), description="module paths that take a right; as the proxy has them"
    )
    users: Mapping[Name, Right] = Field(
        default_factory=dict, description="who may pull what; none: everybody everything, and no TLS"
    )
    serve_files: bool = Field(
        default=False, description="answer with the files that the proxy has in its cache already"
    )
    workers: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="absent: one for each CPU"
    )
    worker_connections: Annotated[int, Field(strict=True, gt=0)] = 10000

    @model_validator(mode="after")
    def _rights_are_to_something(self) -> Self:
        if self.users and not self.private:
            raise ValueError("users without private: name the module paths that take a right")
        return self


def render(request: Request) -> Service:
    """One nginx: its configuration, certificate and passwords, and the master process in the foreground."""
    options, place = request.options, request.place
    if not isinstance(options, SiteOptions):
        raise TypeError(f"{request.name}: options of another backend")
    proxy, site, folder = request.peers[options.proxy], request.endpoint, place.folder
    if proxy.host != place.host:
        raise FieldError("proxy", f"{options.proxy} is on {proxy.host}, and this on {place.host}: they share a cache")
    nginx = place.program("nginx")
    known = flavour(nginx.said)
    if known is None:
        raise UnsupportedError(f"{nginx.path} on {place.host} is no nginx")
    cpus = place.take_cpus(options.cpus, "cpus")
    workers, nofile = options.workers or len(cpus), place.take_files(options.nofile)
    admin = Endpoint(place.host, "http", path=folder / ADMIN_SOCKET)
    config, passwords = folder / "nginx.conf", folder / "passwords"
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    text = render_config(
        shipped("configs") / TEMPLATE,
        folder=str(folder),
        user=place.user if place.root else None,
        workers=workers,
        worker_connections=options.worker_connections,
        nofile=nofile,
        listen=site.authority,
        denied=f"unix:{folder}/_denied.sock",
        proxy=proxy.authority,
        rights=list(rights_map(options.users, options.private)),
        passwords=str(passwords) if options.users else None,
        certificate=str(certificate),
        key=str(key),
        files=str(folder.parent / options.proxy / CACHE / DOWNLOADS) if options.serve_files else None,
        admin=admin.authority,
    )
    secret = (
        File(passwords, Passwords(site, tuple(options.users)), PRIVATE_FILE),
        File(certificate, Certificate(site, "certificate")),
        File(key, Certificate(site, "key"), PRIVATE_FILE),
    )
    log = ("-e", "stderr") if known.error_log_option else ()
    argv = (nginx.path, "-p", f"{folder}/", "-c", str(config), *log)
    return Service(
        name=request.name,
        backend="module-site",
        host=place.host,
        folder=folder,
        files=(File(config, text.encode()), *(secret if options.users else ())),
        checks=(),
        process=Process(argv, cpus, nofile),
        endpoint=site,
        admin=Admin("nginx", admin, "/"),
        parallelism=workers,
        guidance=_guidance(site, options),
        preparations=(Preparation((*argv, "-t", "-q"), CHECK_S),),
    )


def _guidance(site: Endpoint, options: SiteOptions) -> tuple[Guidance, ...]:
    if not options.users:
        return ()
    return (
        Guidance("certificate to trust (SSL_CERT_FILE, or the system's store)", str(certificate_file(site))),
        *(Guidance(f"lines for the ~/.netrc of {user}", str(netrc_file(site, user))) for user in options.users),
    )


def _protocol(options: ServiceOptions) -> Protocol:
    """Over TLS where there are passwords: the go command sends them over nothing else."""
    return "https" if isinstance(options, SiteOptions) and options.users else "http"


def _tied_to(options: ServiceOptions) -> tuple[str, ...]:
    return (options.proxy,) if isinstance(options, SiteOptions) else ()


def _programs(_: ServiceOptions) -> tuple[str, ...]:
    return ("nginx",)


MODULE_SITE = Backend("module-site", SiteOptions, render, protocol_by=_protocol, programs=_programs, tied_to=_tied_to)
