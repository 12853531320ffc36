"""nginx configurations from templates: those of `configs/nginx/`, and a scenario's own, which may extend them."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import NoReturn

from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from benchkit.errors import InputError
from benchkit.resources import shipped

OURS = "benchkit"
"""The prefix by which a template names one that is shipped: `{% extends "benchkit/http.conf.j2" %}`."""

_IN_EXPRESSIONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What Python itself may make of an expression of a template, which no error of Jinja's says."""


def render_config(template: str | Path, **values: object) -> str:
    """A template filled in: a shipped one by its name, or the file at a path.

    Templates are a scenario's and run in Jinja's sandbox; a name that one uses and nobody gives is an error. Raises
    InputError naming template and line.
    """
    name = template.name if isinstance(template, Path) else f"{OURS}/{template}"
    folder = template.parent if isinstance(template, Path) else None
    try:
        return _environment(folder).get_template(name).render(values)
    except (TemplateError, *_IN_EXPRESSIONS) as error:
        _refuse(error, template)


def check_template(path: Path) -> None:
    """Raise InputError where the file at `path` is no template: it cannot be read, or its syntax is wrong."""
    try:
        _environment(path.parent).parse(path.read_text(encoding="utf-8"), path.name, str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}", why=error.strerror) from None
    except (TemplateSyntaxError, UnicodeDecodeError) as error:
        _refuse(error, path)


def _environment(folder: Path | None) -> ImmutableSandboxedEnvironment:
    """`folder` is that of a scenario's own template; others in it may be included."""
    ours = PrefixLoader({OURS: FileSystemLoader(shipped("configs") / "nginx")})
    return ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([ours, FileSystemLoader(folder)]) if folder else ours,
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _refuse(error: Exception, template: str | Path) -> NoReturn:
    """Say what is wrong where: Jinja names the line of syntax itself, and puts others into the traceback."""
    if isinstance(error, TemplateSyntaxError):
        place, line = error.filename or str(template), error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
        place, line = (frames[-1].filename, frames[-1].lineno or 0) if frames else (str(template), 0)
    message = error.message if isinstance(error, TemplateError) else str(error)
    where = f"{place}:{line}" if line else place
    raise InputError(f"the template cannot be filled in: {where}: {message or type(error).__name__}") from None
