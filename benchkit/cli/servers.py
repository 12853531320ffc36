"""Servers and requests of `versus`, `capacity` and `bisect`, as their options describe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import typer
from pydantic import ValidationError

from benchkit.cli.calibration import search_path
from benchkit.cli.host_choice import split_cpus
from benchkit.models.base import SplitCpus
from benchkit.models.request import WITH_CONTENT, SecretValue
from benchkit.scenario.server_arguments import request_path, server_names
from benchkit.scenario.versus import ServerRequest


class Place(TypedDict):
    """Fields of a `Comparison` that say where its servers start."""

    files: tuple[str, ...]
    cwd: str | None
    search_path: str | None
    cpus: SplitCpus | None


def place_of(files: Sequence[Path], inventory: Path | None, lab: str | None) -> Place:
    """Return where servers start: in a lab in this folder, with this shell's PATH, unless files are carried."""
    carried = tuple(str(file.resolve()) for file in files)
    return {
        "files": carried,
        "cwd": None if carried or inventory is not None else str(Path.cwd()),
        "search_path": search_path(inventory),
        "cpus": split_cpus() if inventory is None and lab is None else None,
    }


def named_servers(servers: Sequence[str], names: str | None) -> dict[str, str]:
    """Return the servers by name. Raises BadParameter for none, InputError for names that do not fit."""
    if not servers:
        why = "name the servers, each by its command line in quotes or its URL; one alone is measured"
        raise typer.BadParameter(why, param_hint="SERVER")
    given = [name.strip() for name in names.split(",")] if names else []
    return dict(zip(server_names(servers, given), servers, strict=True))


def read_requests(
    requests: Sequence[str] | None,
    *,
    servers: Sequence[str] = (),
    path: str | None,
    method: str | None,
    body: str | None,
    headers: Sequence[str] | None,
    headers_env: Sequence[str] | None,
) -> tuple[ServerRequest, ...]:
    """Return the requests of the options; a body goes to each of `requests` whose method takes one.

    The default path is the one in the URLs of the servers. Raises BadParameter, and InputError for several paths.
    """
    of_urls = request_path(servers, path)
    if requests and (path is not None or method is not None or of_urls != "/"):
        why = "a request has its own method and path: omit --path, --method and the paths of URLs"
        raise typer.BadParameter(why, param_hint="--request")
    default = "GET" if body is None else "POST"
    pairs = [_method_and_path(text, default) for text in requests or ()] or [(method or default, of_urls)]
    sent = request_headers(headers or (), headers_env or ())
    body_file = str(Path(body[1:]).absolute()) if body is not None and body.startswith("@") else None
    full = ServerRequest(body=body if body_file is None else None, body_file=body_file, headers=sent)
    return tuple(
        replace(full if not requests or verb in WITH_CONTENT else ServerRequest(headers=sent), method=verb, path=target)
        for verb, target in pairs
    )


def _method_and_path(text: str, default: str) -> tuple[str, str]:
    words = text.split()
    if len(words) not in (1, 2):
        raise typer.BadParameter(f"{text!r} is not of the form 'METHOD PATH'", param_hint="--request")
    return (default, words[0]) if len(words) == 1 else (words[0].upper(), words[1])


def request_headers(lines: Sequence[str], from_environment: Sequence[str]) -> dict[str, str | SecretValue]:
    """Return the headers of the options. Raises BadParameter, which quotes no value."""
    headers: dict[str, str | SecretValue] = dict(_pairs(lines, "--header", "NAME: VALUE"))
    for name, variable in _pairs(from_environment, "--header-env", "NAME: VARIABLE"):
        try:
            headers[name] = SecretValue(env=variable)
        except ValidationError:
            raise typer.BadParameter(f"the variable for {name} has no valid name", param_hint="--header-env") from None
    return headers


def _pairs(lines: Sequence[str], option: str, form: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not colon:
            raise typer.BadParameter(f"number {number} is not of the form {form!r}", param_hint=option)
        yield name.strip(), value.strip()
