"""Command lines of scenarios: an argument list, or text that is split as a shell splits it, with placeholders.

No shell runs them: a variable, a pipe or a pattern of file names means nothing in them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from benchkit.errors import suggestion

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)
_OPERATOR = re.compile(r"\|\||&&|\$\(|[0-9]?(?:>>|>&|>|<<|<)|[|&;`]")
_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[a-z][a-z_]*)\}\}|\{(?P<name>[a-z][a-z_]*)\}")


def shell_operator(text: str) -> str | None:
    """Return the first part of a command line that only a shell understands, such as `&&`; None: all is plain."""
    found = _OPERATOR.search(_QUOTED.sub("_", text))
    return found[0] if found else None


def split_command(value: object) -> object:
    """Split text as a shell does; leave a list as it is. Raises ValueError for text that cannot be split."""
    if not isinstance(value, str):
        return value
    if operator := shell_operator(value):
        raise ValueError(
            f"found {operator!r}, which only a shell understands; allowed: one command, or the list "
            f"[sh, -c, 'the whole line']"
        )
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"found {value!r}, which cannot be split into arguments: {error}") from None


CommandLine = Annotated[
    tuple[Annotated[str, StringConstraints(strict=True, pattern=r"^[^\x00]*$")], ...],
    Field(min_length=1),
    BeforeValidator(split_command, json_schema_input_type=str | tuple[str, ...]),
]
"""Arguments of a command, the program first."""


def fill_in(text: str, values: Mapping[str, str | None]) -> str:
    """Replace each `{name}` by its value; `{{name}}` stands for the text `{name}`, and other braces for themselves.

    Raises ValueError for a name that has no value (None), or that is unknown.
    """

    def replace(match: re.Match[str]) -> str:
        if match["literal"] is not None:
            return f"{{{match['literal']}}}"
        name = match["name"]
        if name not in values:
            known = (f"{{{each}}}" for each in values)
            raise ValueError(
                f"no placeholder {match[0]}; {suggestion(match[0], known)}; {{{match[0]}}} is the text itself"
            )
        value = values[name]
        if value is None:
            raise ValueError(f"{match[0]} has no value here: {_WHY_NONE.get(name, 'there is none')}")
        return value

    return _PLACEHOLDER.sub(replace, text)


_WHY_NONE = {
    "host": "the service listens on a unix socket",
    "port": "the service listens on a unix socket",
    "socket": "the service listens on a port; for a unix socket, write `listen: unix`",
    "certificate": "the service speaks no TLS; write `protocol: https1` or `protocol: h2`",
    "certificate_key": "the service speaks no TLS; write `protocol: https1` or `protocol: h2`",
}


def placeholders(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the placeholders in texts."""
    return frozenset(match["name"] for text in texts for match in _PLACEHOLDER.finditer(text) if match["name"])
