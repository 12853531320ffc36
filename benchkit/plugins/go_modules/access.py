"""Credentials of the reverse proxy: users with passwords and rights to module paths, and a certificate.

The controller keeps passwords as hashes and .netrc lines, and the certificate; instructions tell users to trust it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen, Name
from benchkit.plugins.go_modules.proxy import PathPattern, path_expression
from benchkit.services.controller_files import get_or_create, save_copy, secret_path
from benchkit.services.placement import Endpoint
from benchkit.services.service import ControllerFile

PASSWORD_BYTES = 18
"""144 random bits: too many to guess, however cheap the hash is."""

BCRYPT_COST = 5
"""nginx hashes the password for each request, which takes 2 ms of its worker at this cost. A higher cost would slow
pulls down and only protect passwords that people choose, which these are not. The libc's crypt(3) must support `$2b$`:
libxcrypt (Debian 11 and later, Fedora) and musl do."""

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
        password = password_of(self.server, self.user).text
        machines = (self.server.authority, str(self.server.address))
        lines = "".join(f"machine {machine} login {self.user} password {password}\n" for machine in machines)
        return save_copy(_netrc_name(self.server, self.user), lines.encode())


def netrc_path(server: Endpoint, user: str) -> Path:
    """Return the path of a user's .netrc lines on the controller, for the people who give them to the user."""
    return secret_path(_netrc_name(server, user))


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
        return "".join(f"{user}:{password_of(self.server, user).hashed}\n" for user in self.users).encode()


class Password(Frozen):
    """A password and its salted hash; both are stored, so that the hash is the same in every deployment."""

    text: str
    hashed: str


def password_of(server: Endpoint, user: str) -> Password:
    """Return the password of a user at a server; create it first if there is none."""
    content = get_or_create(f"password {user} at {server.host} {server.authority}", _create_password)
    return Password.model_validate_json(content)


def _create_password() -> bytes:
    import bcrypt

    text = secrets.token_urlsafe(PASSWORD_BYTES)
    hashed = bcrypt.hashpw(text.encode(), bcrypt.gensalt(BCRYPT_COST)).decode()
    return Password(text=text, hashed=hashed).model_dump_json().encode()


def access_rules(users: Mapping[Name, AccessRight], private: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of an nginx map from `user:path` to allowed or denied; the first expression that matches applies.

    A private path is denied to users without a right to it; other paths are allowed to everybody. Without users there
    is no access control. The paths above private ones (`mycompany.com` of `mycompany.com/go`) are denied to everybody.
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
        name, address = _certificate_name(self.server), str(self.server.address)

        def create() -> bytes:
            import trustme

            authority = trustme.CA(organization_name=f"benchkit: module proxy at {address}")
            issued = authority.issue_cert(address)
            return b"\0".join(
                part.bytes() for part in (issued.private_key_pem, issued.cert_chain_pems[0], authority.cert_pem)
            )

        parts = dict(zip(("key", "certificate", "authority"), get_or_create(name, create).split(b"\0"), strict=True))
        save_copy(f"authority of {name}", parts["authority"])
        return parts[self.part]


def certificate_path(server: Endpoint) -> Path:
    """Return the path of the authority's certificate on the controller, for the users who need it."""
    return secret_path(f"authority of {_certificate_name(server)}")


def _certificate_name(server: Endpoint) -> str:
    return f"certificate {server.host} {server.authority}"
