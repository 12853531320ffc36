"""Texts that are filled in: configurations from Jinja templates, and command lines with placeholders.

Templates are in `configs/nginx/`; a scenario's own may extend them.
"""

from __future__ import annotations

import functools
import re
import shlex
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
)
from pydantic import BeforeValidator, Field, StringConstraints

from benchkit.errors import InputError, suggestion
from benchkit.files import shipped

SHIPPED_PREFIX = "benchkit"
"""Prefix of shipped templates in a scenario's own: `{% extends "benchkit/http.conf.j2" %}`."""

_SPECIAL = re.compile(r"[^\w./:@%+,=\[\]-]")

_EXPRESSION_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of Python that an expression in a template may raise; they are not subclasses of Jinja's."""


def render_config(template: str | Path, **values: object) -> str:
    """Return the text of a template: a shipped one by its name, or the file at a path.

    An undefined name is an error. Raises InputError naming template and line.
    """
    name = template.name if isinstance(template, Path) else f"{SHIPPED_PREFIX}/{template}"
    folder = template.parent if isinstance(template, Path) else None
    try:
        return _environment(folder).get_template(name).render(values)
    except (TemplateError, *_EXPRESSION_ERRORS) as error:
        _raise_input_error(error, template)


def quoted(parameter: str) -> str:
    """Return a parameter as nginx's configuration needs it: in quotes where it has blanks or characters with a meaning.

    Nothing escapes `$`, which starts the name of a variable in some directives; nginx reports it in their paths.
    """
    if not _SPECIAL.search(parameter):
        return parameter
    escaped = parameter.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def validate_template(path: Path) -> None:
    """Raise InputError where the file at `path` cannot be read, or is not a template by its syntax."""
    try:
        _environment(path.parent).parse(path.read_text(encoding="utf-8"), path.name, str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}", why=error.strerror) from None
    except (TemplateSyntaxError, UnicodeDecodeError) as error:
        _raise_input_error(error, path)


@functools.cache
def _environment(folder: Path | None) -> Environment:
    """Return an environment in which a scenario's own template may include others of its `folder`.

    It keeps compiled templates, and compiles a file again that has changed.
    """
    shipped_templates = PrefixLoader({SHIPPED_PREFIX: FileSystemLoader(shipped("configs") / "nginx")})
    return Environment(
        loader=ChoiceLoader([shipped_templates, FileSystemLoader(folder)]) if folder else shipped_templates,
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - configurations, not pages
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _raise_input_error(error: Exception, template: str | Path) -> NoReturn:
    """Raise InputError naming the line, which Jinja has in its syntax errors and in the traceback of all others."""
    if isinstance(error, TemplateSyntaxError):
        place, line = error.filename or str(template), error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
        place, line = (frames[-1].filename, frames[-1].lineno or 0) if frames else (str(template), 0)
    message = error.message if isinstance(error, TemplateError) else str(error)
    where = f"{place}:{line}" if line else place
    raise InputError(f"the template cannot be rendered: {where}: {message or type(error).__name__}") from None


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


_MISSING = {
    **dict.fromkeys(("host", "port"), "`listen` names a unix socket"),
    "socket": "`listen` names a port",
    **dict.fromkeys(("certificate", "certificate_key"), "`protocol` is without TLS"),
}
"""Reasons why a placeholder has no value."""


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
            raise ValueError(f"{match[0]} has no value, because {_MISSING[name]}")
        return value

    return _PLACEHOLDER.sub(replace, text)
