"""nginx configurations from Jinja templates: those of `configs/nginx/`, and a scenario's own, which may extend them."""

from __future__ import annotations

import functools
import re
import traceback
from pathlib import Path
from typing import NoReturn

from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from benchkit.errors import InputError
from benchkit.files import shipped

SHIPPED_PREFIX = "benchkit"
"""Prefix of shipped templates in a scenario's own: `{% extends "benchkit/http.conf.j2" %}`."""

_SPECIAL = re.compile(r"[^\w./:@%+,=\[\]-]")

_EXPRESSION_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of Python that an expression in a template may raise; they are not subclasses of Jinja's."""


def render_config(template: str | Path, **values: object) -> str:
    """Return the text of a template: a shipped one by its name, or the file at a path.

    A scenario's template may come from elsewhere, so it runs in Jinja's sandbox; an undefined name is an error. Raises
    InputError naming template and line.
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


def check_template(path: Path) -> None:
    """Raise InputError where the file at `path` cannot be read, or is not a template by its syntax."""
    try:
        _environment(path.parent).parse(path.read_text(encoding="utf-8"), path.name, str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}", why=error.strerror) from None
    except (TemplateSyntaxError, UnicodeDecodeError) as error:
        _raise_input_error(error, path)


@functools.cache
def _environment(folder: Path | None) -> ImmutableSandboxedEnvironment:
    """Return an environment in which a scenario's own template may include others of its `folder`.

    It keeps compiled templates, and compiles a file again that has changed.
    """
    shipped_templates = PrefixLoader({SHIPPED_PREFIX: FileSystemLoader(shipped("configs") / "nginx")})
    return ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([shipped_templates, FileSystemLoader(folder)]) if folder else shipped_templates,
        undefined=StrictUndefined,
        autoescape=False,
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
