"""Servers as arguments of a command: command lines and URLs, their names, and the path of their requests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import SplitResult, urlsplit

from benchkit.errors import InputError
from benchkit.models.base import NAME_FORM
from benchkit.services.placement import is_loopback
from benchkit.services.templates import shell_operator

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def server_names(commands: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return a name for each command: the given one, else its program's, numbered where two are equal.

    Raises InputError for names that are too few, too many, equal, or no names.
    """
    if names:
        if len(names) != len(commands):
            raise InputError(f"{len(names)} names for {len(commands)} commands", where="--names")
        wrong = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name)]
        if wrong:
            raise InputError(f"{wrong[0]!r} is not a valid name", where="--names", why=f"allowed: {NAME_FORM}")
        if len(set(names)) < len(names):
            raise InputError("two names are equal", where="--names")
        return list(names)
    plain = [_program_name(command) for command in commands]
    return [name if plain.count(name) == 1 else f"{name}-{1 + plain[:i].count(name)}" for i, name in enumerate(plain)]


IMAGE = "image:"
"""Start of a server that is an image: `image:me/app:1.2`."""


def image_of(server: str) -> str | None:
    """Return the name of the image that a server is; None for a URL or a command line."""
    return server.removeprefix(IMAGE) if server.startswith(IMAGE) else None


def is_url(server: str) -> bool:
    """Return True for the URL of an external server, False for a command line."""
    return server.startswith(("http://", "https://"))


def is_on_this_machine(server: str) -> bool:
    """Return True for a URL whose host is a loopback address. Raises InputError for a URL that is none."""
    return is_url(server) and is_loopback(split_url(server).hostname or "")


def request_path(servers: Sequence[str], path: str | None) -> str:
    """Return the path of the requests: as given, else from the URLs that have one, else `/`.

    Raises InputError where the URLs have several.
    """
    of_urls = {_path_of(server) for server in servers if is_url(server)} - {""}
    wanted = of_urls if path is None else of_urls | {path}
    if len(wanted) > 1:
        raise InputError(
            f"several paths: {', '.join(sorted(wanted))}",
            why="all servers get the same requests",
            hint="write URLs without a path, and give it once with --path",
        )
    return next(iter(wanted), "/")


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL. Raises InputError."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed on access
    except ValueError as error:
        raise InputError(f"{url!r} is not a URL", why=str(error)) from None
    if parts.username is not None:
        raise InputError("a URL contains a user name", hint="give an Authorization header instead")
    return parts


def _path_of(url: str) -> str:
    parts = split_url(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path


def _program_name(server: str) -> str:
    """Return the name of the program of a command line, or of the host of a URL, in the form of names."""
    if (image := image_of(server)) is not None:
        text = image.rpartition("/")[2]
    elif is_url(server):
        parts = split_url(server)
        text = f"localhost:{parts.port}" if is_on_this_machine(server) and parts.port else parts.netloc
    else:
        text = PurePath(command_words(server)[1][0]).name
    name = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:60]
    return name if name[:1].isalpha() else f"server-{name}".rstrip("-")


def command_words(command: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that precede a command line, as in `PORT=1 node a.js`, and its arguments, at least one.

    Raises InputError.
    """
    if operator := shell_operator(command):
        line = f"sh -c {shlex.quote(command)}"
        argument = shlex.quote(line) if re.search(r"[\"$`\\]", line) else f'"{line}"'
        raise InputError(
            f"{command!r} has {operator}, which only a shell understands",
            hint=f"let a shell run it: {argument}; or quote the characters that are text",
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{command!r} cannot be split into arguments", why=str(error)) from None
    if words and "://" in words[0]:
        raise InputError(f"{words[0]!r} is not the URL of a server", hint="a URL begins with http:// or https://")
    number = next((i for i, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    if number == len(words):
        raise InputError("a command is empty", hint="give each server's command line as one argument, in quotes")
    variables = (word.partition("=") for word in words[:number])
    return {name: value for name, _, value in variables}, words[number:]
