"""The list of commands, of which a process imports and builds the one that it was started for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

HOMES: Mapping[str, str] = MappingProxyType(
    {
        "demo": "benchkit.cli.run:demo",
        "validate": "benchkit.cli.validate:validate",
        "plan": "benchkit.cli.plan:plan",
        "run": "benchkit.cli.run:run",
        "compare": "benchkit.cli.compare:compare",
        "report": "benchkit.cli.report:report",
        "parse": "benchkit.cli.parse:parse",
        "notebook": "benchkit.cli.notebook:notebook",
        "lab": "benchkit.cli.lab:app",
        "hosts": "benchkit.cli.hosts:app",
        "profile": "benchkit.cli.profile:app",
        "service": "benchkit.cli.service:app",
        "results": "benchkit.cli.results:app",
    }
)
"""The function of each command, or the application of each group of commands, in the order of the help."""

PASSED_ON = frozenset({"notebook"})
"""Commands whose unknown arguments are another program's."""


class Commands(TyperGroup):
    """Commands that are imported and built when they are asked for: all thirteen take a twentieth of a short command's time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's context is of its own copy of click
        """Their names, in the order of the help."""
        return [*HOMES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """The command of that name, else None; then all are there, of which one may have been meant."""
        for name in [cmd_name] if cmd_name in HOMES else HOMES:
            if name not in self.commands:
                self.commands[name] = _built(name)
        return super().get_command(ctx, cmd_name)


def _built(name: str) -> Any:  # noqa: ANN401
    module, _, attribute = HOMES[name].partition(":")
    found = getattr(import_module(module), attribute)
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name, context_settings={"allow_extra_args": name in PASSED_ON})(found)
    return get_group(alone).commands[name]
