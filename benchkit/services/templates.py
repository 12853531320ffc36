"""Texts that are filled in: configurations from Jinja templates, and command lines with placeholders."""

from __future__ import annotations

import functools
import re
import shlex
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError
from pydantic import BeforeValidator, Field, StringConstraints

from benchkit.errors import InputError, suggestion

_SPECIAL = re.compile(r"[^\w./:@%+,=\[\]-]")


def render_config(template: Path, **values: object) -> str:
    """Return the text of a Jinja template, which may include others of its folder.

    An undefined name is an error. Raises InputError naming template and line.
    """
    try:
        return _environment(template.parent).get_template(template.name).render(values)
    except (TemplateError, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else template
        raise InputError(f"the template cannot be rendered: {where}: {error}") from None


@functools.cache
def _environment(folder: Path) -> Environment:
    """Return an environment that keeps compiled templates, and compiles a file again that has changed."""
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - configurations, not pages
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def quoted(parameter: str) -> str:
    """Return a parameter as nginx's configuration needs it: in quotes where it has blanks or characters with a meaning.

    Nothing escapes `$`, which starts the name of a variable in some directives; nginx reports it in their paths.
    """
    if not _SPECIAL.search(parameter):
        return parameter
    escaped = parameter.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; `{{name}}` stands for the text `{name}`, and other braces for themselves.

    Raises ValueError for a name that is unknown.
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
        return values[name]

    return _PLACEHOLDER.sub(replace, text)
