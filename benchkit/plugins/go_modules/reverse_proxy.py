"""The reverse proxy that developers use: nginx before the module proxy, with TLS and access control if it has users.

Credentials stop here: the module proxy gets no password, and no request of a user without the right to it. Versions in
the module proxy's cache never change, so they can be served from its files.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import Field, model_validator

from benchkit.errors import FieldError, UnsupportedError
from benchkit.files import shipped
from benchkit.models.base import Frozen, Name
from benchkit.models.protocol import Protocol
from benchkit.plugins.go_modules.proxy import CACHE, DOWNLOADS, PathPattern, path_expression
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.controller_files import get_or_create, save_copy, secret_path
from benchkit.services.nginx import nginx_arguments, parse_version_output, relative_authority, worker_user
from benchkit.services.placement import Endpoint
from benchkit.services.server_options import admin_endpoint
from benchkit.services.service import (
    AdminPage,
    ControllerFile,
    Instruction,
    Service,
    ServiceFile,
    ServiceProcess,
    SetupCommand,
)
from benchkit.services.templates import quoted, render_config

TEMPLATE = PurePosixPath("go-module-proxy") / "site.conf.j2"
DENIED_SOCKET = "_denied.sock"
"""Socket in the service's folder at which nginx answers requests without the right to a module."""
TEST_TIMEOUT_S = 10.0

PASSWORD_BYTES = 18
"""144 random bits: too many to guess, however cheap the hash is."""

ALLOWED, DENIED = "allowed", "denied"


class AccessRight(Frozen):
    """Private modules that a user may pull; all others are open to everybody."""

    may_pull: tuple[PathPattern, ...] = Field(
        default=(), description="module paths that the user may pull", examples=[["mycompany.com/go"]]
    )


@dataclass(frozen=True)
class NetrcFile(ControllerFile):
    """The .netrc of a user, with which the go command logs in, over https only (`go help goauth`)."""

    server: Endpoint
    user: str

    def read(self) -> bytes:
        """Return a line for the go command, which matches host and port, and one for programs that match the host."""
        password = password_of(self.server, self.user)
        machines = (self.server.authority, str(self.server.address))
        lines = "".join(f"machine {machine} login {self.user} password {password}\n" for machine in machines)
        return save_copy(_netrc_name(self.server, self.user), lines.encode())


def _netrc_name(server: Endpoint, user: str) -> str:
    return f"netrc {user} at {server.host} {server.authority}"


@dataclass(frozen=True)
class PasswordFile(ControllerFile):
    """The file in which nginx looks users up: `name:hash` (auth_basic_user_file)."""

    server: Endpoint
    users: tuple[str, ...]

    def read(self) -> bytes:
        """Return a line for each user; the controller keeps the .netrc lines of each as well."""
        for user in self.users:
            NetrcFile(self.server, user).read()
        return "".join(f"{user}:{hashed(password_of(self.server, user))}\n" for user in self.users).encode()


def password_of(server: Endpoint, user: str) -> str:
    """Return the password of a user at a server; create it first if there is none."""
    name = f"password {user} at {server.host} {server.authority}"
    return get_or_create(name, lambda: secrets.token_urlsafe(PASSWORD_BYTES).encode()).decode()


def hashed(password: str) -> str:
    """Return a salted SHA-1 (`{SSHA}` of RFC 2307), as nginx reads it; random passwords need no slow hash.

    The salt comes from the password, so that the hash is the same in every deployment.
    """
    salt = hashlib.sha256(password.encode()).digest()[:8]
    digest = hashlib.sha1(password.encode() + salt).digest()  # noqa: S324 - see above
    return f"{{SSHA}}{base64.b64encode(digest + salt).decode()}"


def access_rules(users: Mapping[Name, AccessRight], private: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of an nginx map from `user:path` to allowed or denied; the first expression that matches applies.

    A private path is denied to users without a right to it; other paths are allowed to everybody. Without users there
    is not access control. The paths above private ones (`mycompany.com` of `mycompany.com/go`) are denied to everybody.
    The go command asks for them whenever it looks for a module (`go help modules`), and they are not modules. If the
    upstream proxy is down, such a request would fail, and the pull of the private module with it. No checksum database
    is asked for a private module, whose name would leave the company.
    """
    for path in sorted({parent for pattern in private for parent in _parents(pattern)}):
        yield _map_key("[^:]*", f"/{path_expression(path)}/@"), DENIED
    for pattern in private:
        yield _map_key("[^:]*", f"/sumdb/[^/]+/lookup/{path_expression(pattern)}[/@]"), DENIED
    if not users:
        yield "~.", ALLOWED
        return
    for user, right in users.items():
        for pattern in right.may_pull:
            yield _map_key(re.escape(user), f"/{path_expression(pattern)}/"), ALLOWED
    for pattern in private:
        yield _map_key("[^:]*", f"/{path_expression(pattern)}/"), DENIED
    yield '"~^[^:]+:/"', ALLOWED


def _parents(pattern: str) -> Iterator[str]:
    """Yield the paths above a module path: `a.example`, `a.example/b` of `a.example/b/c`."""
    elements = pattern.split("/")
    return ("/".join(elements[:count]) for count in range(1, len(elements)))


def _map_key(user: str, path: str) -> str:
    """Return a regular expression as a quoted key of a map, with backslashes doubled, as nginx unescapes them."""
    text = f"~^{user}:{path}".replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


@dataclass(frozen=True)
class SiteCertificate(ControllerFile):
    """The certificate of a module site, its private key, or that of its authority (PEM)."""

    server: Endpoint
    part: Literal["certificate", "key", "authority"]
    """`authority`: the certificate that users trust."""

    def read(self) -> bytes:
        """Return the part."""
        name, address = f"certificate {self.server.host} {self.server.authority}", str(self.server.address)

        def create() -> bytes:
            import trustme

            authority = trustme.CA(organization_name=f"benchkit: module proxy at {address}")
            issued = authority.issue_cert(address)
            return b"\0".join(
                part.bytes() for part in (issued.private_key_pem, issued.cert_chain_pems[0], authority.cert_pem)
            )

        parts = dict(zip(("key", "certificate", "authority"), get_or_create(name, create).split(b"\0"), strict=True))
        save_copy(_authority_name(self.server), parts["authority"])
        return parts[self.part]


def _authority_name(server: Endpoint) -> str:
    return f"authority of {server.host} {server.authority}"


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

    @model_validator(mode="after")
    def _require_private_for_users(self) -> Self:
        if self.users and not self.private:
            raise ValueError("users without private: name the module paths that need a right")
        return self


class ReverseProxy(Backend[ReverseProxyOptions]):
    """One nginx: its configuration, certificate and passwords, and the master process in the foreground."""

    name = "module-site"
    options = ReverseProxyOptions
    needs = ("nginx",)

    def protocol(self, options: ReverseProxyOptions) -> Protocol:
        """Return https1 if there are passwords, because the go command sends them over nothing else."""
        return "https1" if options.users else "http1"

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
        admin = admin_endpoint(place)
        config, passwords = folder / "nginx.conf", folder / "passwords"
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        text = render_config(
            shipped("configs") / TEMPLATE,
            user=worker_user(place),
            workers=len(cpus),
            nofile=place.nofile,
            listen=quoted(server.authority),
            proxy=quoted(relative_authority(proxy, folder)),
            denied=DENIED_SOCKET,
            rights=list(access_rules(options.users, options.private)),
            passwords=passwords.name if options.users else None,
            certificate=certificate.name,
            key=key.name,
            files=str(PurePosixPath("..", options.proxy, CACHE, DOWNLOADS)) if options.serve_files else None,
            admin=quoted(admin.authority),
        )
        private_files = (
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
            files=(ServiceFile(config, text.encode()), *(private_files if options.users else ())),
            process=ServiceProcess(argv, cpus, place.nofile),
            endpoint=server,
            admin=AdminPage("nginx", admin, "/"),
            inner_sockets=(folder / DENIED_SOCKET,),
            parallelism=len(cpus),
            setup_commands=(SetupCommand((*argv, "-t", "-q"), TEST_TIMEOUT_S),),
            instructions=_instructions(server, options) if options.users else (),
        )


def _instructions(server: Endpoint, options: ReverseProxyOptions) -> tuple[Instruction, ...]:
    return (
        Instruction(
            "certificate to trust (SSL_CERT_FILE, or the system's store)", str(secret_path(_authority_name(server)))
        ),
        *(
            Instruction(f"lines for the ~/.netrc of {user}", str(secret_path(_netrc_name(server, user))))
            for user in options.users
        ),
    )


MODULE_SITE = ReverseProxy()
