"""List of commands, of which a process imports and builds only the one that it was started for."""

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
        "versus": "benchkit.cli.versus:versus",
        "bisect": "benchkit.cli.bisect:bisect",
        "validate": "benchkit.cli.validate:validate",
        "fields": "benchkit.cli.fields:fields",
        "plugins": "benchkit.cli.plugins:plugins",
        "plan": "benchkit.cli.plan:plan",
        "run": "benchkit.cli.run:run",
        "compare": "benchkit.cli.compare:compare",
        "history": "benchkit.cli.history:history",
        "report": "benchkit.cli.report:report",
        "audit": "benchkit.cli.audit:audit",
        "parse": "benchkit.cli.parse:parse",
        "notebook": "benchkit.cli.notebook:notebook",
        "lab": "benchkit.cli.lab:app",
        "hosts": "benchkit.cli.hosts:app",
        "profile": "benchkit.cli.profile:app",
        "service": "benchkit.cli.service:app",
        "cluster": "benchkit.cli.cluster:app",
        "results": "benchkit.cli.results:app",
    }
)
"""Function of each command, or application of each command group, in the order of the help."""

PASSED_ON = frozenset({"notebook"})
"""Commands that pass arguments which they do not know to another program."""


class Commands(TyperGroup):
    """Command group that imports a command on demand: importing all of them would dominate a short command's time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's context is of its own copy of click
        """Return the names of all commands in the order of the help."""
        return [*HOMES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return the command of that name; for an unknown name build all, so that Click suggests one."""
        for name in [cmd_name] if cmd_name in HOMES else HOMES:
            if name not in self.commands:
                self.commands[name] = _build_command(name)
        return super().get_command(ctx, cmd_name)


def _build_command(name: str) -> Any:  # noqa: ANN401
    module, _, attribute = HOMES[name].partition(":")
    command = getattr(import_module(module), attribute)
    standalone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        standalone.add_typer(command, name=name)
    else:
        standalone.command(name, context_settings={"allow_extra_args": name in PASSED_ON})(command)
    return get_group(standalone).commands[name]
