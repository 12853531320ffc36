"""List of commands, of which a process imports and builds only the one that it was started for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from benchkit.registry import Registry

SECTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Compare servers": {
            "demo": "benchkit.cli.run:demo",
            "versus": "benchkit.cli.versus:versus",
            "capacity": "benchkit.cli.capacity:capacity",
        },
        "Run scenarios": {
            "validate": "benchkit.cli.scenario_files:validate",
            "plan": "benchkit.cli.plan:plan",
            "run": "benchkit.cli.run:run",
            "service": "benchkit.cli.service:app",
            "fields": "benchkit.cli.scenario_files:fields",
        },
        "Read results": {
            "compare": "benchkit.cli.compare:compare",
            "why": "benchkit.cli.why:why",
            "report": "benchkit.cli.report:report",
            "history": "benchkit.cli.history:history",
            "results": "benchkit.cli.results:app",
            "notebook": "benchkit.cli.report:notebook",
        },
        "Hosts": {
            "lab": "benchkit.cli.lab:app",
            "hosts": "benchkit.cli.hosts:app",
        },
        "Tools": {
            "parse": "benchkit.cli.tools:parse",
            "profile": "benchkit.cli.profile:app",
            "plugins": "benchkit.cli.tools:plugins",
        },
    }
)
"""Sections of the help, in its order: function of each command, or application of each command group."""

COMMANDS: Mapping[str, str] = MappingProxyType({name: at for of in SECTIONS.values() for name, at in of.items()})

PASSED_ON = frozenset({"notebook"})
"""Commands that pass unknown arguments on to another program."""


@functools.cache
def plugin_commands(title: str) -> Registry[Any]:
    """Return the commands that plugins add to a section of the help, by entry points as `benchkit.commands.hosts`."""
    return Registry(f"benchkit.commands.{title.rsplit(maxsplit=1)[-1].lower()}", {}, Callable)


def add_subcommands(group: typer.Typer, name: str) -> None:
    """Add the commands that plugins have for a group, by entry points as `benchkit.subcommands.results`."""
    for command, function in Registry[Any](f"benchkit.subcommands.{name}", {}, Callable).items():
        group.command(command)(function)


class Commands(TyperGroup):
    """Command group that imports a command on demand: importing all of them would dominate a short command's time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer has its own copy of click
        """Return the names of all commands in the order of the help."""
        return [name for names in _sections().values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the commands in sections, each with its first line of help."""
        for title, names in _sections().items():
            with formatter.section(title):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(100)) for name in names])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return the command of that name; for an unknown name build all, so that Click suggests one."""
        names = [cmd_name] if cmd_name in COMMANDS else self.list_commands(ctx)
        for name in [cmd_name] if cmd_name in names else names:
            if name not in self.commands:
                self.commands[name] = _build_command(name)
        return super().get_command(ctx, cmd_name)


def _sections() -> Mapping[str, Sequence[str]]:
    return {title: [*names, *plugin_commands(title)] for title, names in SECTIONS.items()}


def _build_command(name: str) -> Any:  # noqa: ANN401
    if name in COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(module), attribute)
    else:
        command = next(found[name] for found in map(plugin_commands, SECTIONS) if name in found)
    standalone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        standalone.add_typer(command, name=name)
    else:
        standalone.command(name, context_settings={"allow_extra_args": name in PASSED_ON})(command)
    return get_group(standalone).commands[name]
