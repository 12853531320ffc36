"""The options that give headers of requests: `--header`, and `--header-env` for those that nobody else may read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from benchkit.models.headers import SecretValue


def request_headers(lines: Sequence[str], from_environment: Sequence[str]) -> dict[str, str | SecretValue]:
    """Return the headers of the options. Raises BadParameter, which quotes no value."""
    from pydantic import ValidationError

    from benchkit.models.headers import SecretValue

    headers: dict[str, str | SecretValue] = dict(_pairs(lines, "--header", "NAME: VALUE"))
    for name, variable in _pairs(from_environment, "--header-env", "NAME: VARIABLE"):
        try:
            headers[name] = SecretValue(env=variable)
        except ValidationError:
            raise typer.BadParameter(f"the variable of {name} is not a name", param_hint="--header-env") from None
    return headers


def _pairs(lines: Sequence[str], option: str, form: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not colon:
            raise typer.BadParameter(f"number {number} is not of the form {form!r}", param_hint=option)
        yield name.strip(), value.strip()
