"""Who may pull what: users with a password each, hashed where the proxy has it, and rights to module paths. Mostly pure."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.models.base import Frozen
from benchkit.models.levels import Name
from benchkit.services.backend import ControllerFile
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_modules.module_paths import PathPattern, expression_of
from benchkit.services.kept_secrets import handed_out, kept, kept_path

PASSWORD_BYTES = 18
"""144 random bits: nobody guesses them, whatever it costs to hash a guess."""

BCRYPT_COST = 5
"""nginx hashes the password anew for each request, 2 ms of its worker at this cost; more would slow pulls down, and
protect passwords that people choose, which these are not. The libc's crypt(3) must know `$2b$`: libxcrypt (Debian 11 and
later, Fedora) and musl do."""


class Right(Frozen):
    """What a user may pull beside the modules that are not private."""

    may_pull: tuple[PathPattern, ...] = ()


@dataclass(frozen=True)
class Netrc(ControllerFile):
    """The .netrc of a user, with which the go command logs in; over https alone (`go help goauth`)."""

    site: Endpoint
    user: str

    def read(self) -> bytes:
        """A line for the go command, which looks for host and port, and one for those that look for the host."""
        password = password_of(self.site, self.user).text
        machines = (self.site.authority, str(self.site.address))
        lines = "".join(f"machine {each} login {self.user} password {password}\n" for each in machines)
        return handed_out(_netrc(self.site, self.user), lines.encode())


def netrc_file(site: Endpoint, user: str) -> Path:
    """Where the controller keeps the lines for a user's .netrc, to be handed out."""
    return kept_path(_netrc(site, user))


def _netrc(site: Endpoint, user: str) -> str:
    return f"netrc {user} at {site.host} {site.authority}"


@dataclass(frozen=True)
class Passwords(ControllerFile):
    """The file in which nginx looks users up: `name:hash`."""

    site: Endpoint
    users: tuple[str, ...]

    def read(self) -> bytes:
        """A line for each user; what each is handed is kept beside it."""
        for user in self.users:
            Netrc(self.site, user).read()
        return "".join(f"{user}:{password_of(self.site, user).hashed}\n" for user in self.users).encode()


class Password(Frozen):
    """A password and its hash, which has a salt of its own and stays the same."""

    text: str
    hashed: str


def password_of(site: Endpoint, user: str) -> Password:
    """The password of a user at a site, made when it is first wanted."""
    content = kept(f"password {user} at {site.host} {site.authority}", _new_password)
    return Password.model_validate_json(content)


def _new_password() -> bytes:
    import bcrypt  # noqa: PLC0415 - only the first deployment wants it

    text = secrets.token_urlsafe(PASSWORD_BYTES)
    hashed = bcrypt.hashpw(text.encode(), bcrypt.gensalt(BCRYPT_COST)).decode()
    return json.dumps({"text": text, "hashed": hashed}).encode()


ALLOWED, DENIED = "allowed", "denied"


def rights_map(users: Mapping[Name, Right], private: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The lines of an nginx map from `user:path` to allowed or denied; the first expression that matches counts.

    What is private is denied to all but those with a right to it; what is not is everybody's. Where there are no users
    there is no access control. Denied to everybody are the paths above private ones (`mycompany.com` of
    `mycompany.com/go`): the go command asks for them whenever it looks for a module (`go help modules`), they are none,
    and with an upstream proxy that is away the question alone would make the pull of a private module fail.
    """
    for path in sorted({above for pattern in private for above in _above(pattern)}):
        yield _line("[^:]*", f"/{expression_of(path)}/@"), DENIED
    if not users:
        yield "~.", ALLOWED
        return
    for user, right in users.items():
        for pattern in right.may_pull:
            yield _line(re.escape(user), f"/{expression_of(pattern)}/"), ALLOWED
    for pattern in private:
        yield _line("[^:]*", f"/{expression_of(pattern)}/"), DENIED
    yield '"~^[^:]+:/"', ALLOWED


def _above(pattern: str) -> Iterator[str]:
    """The paths above a module path: `a.example`, `a.example/b` of `a.example/b/c`."""
    elements = pattern.split("/")
    return ("/".join(elements[:count]) for count in range(1, len(elements)))


def _line(user: str, path: str) -> str:
    """An expression of a map, quoted, with the backslashes that the configuration file takes away put twice."""
    text = f"~^{user}:{path}".replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
