"""The commands with a line of help each; a process imports only the command that it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from benchkit.registry import Registry


class Listed(NamedTuple):
    """A command with its line of help, and the path of its function or application."""

    help: str
    target: str


SECTIONS: Mapping[str, Mapping[str, Listed]] = MappingProxyType(
    {
        "Compare servers": {
            "demo": Listed("See a comparison on this machine, with nothing prepared.", "benchkit.cli.run:demo"),
            "versus": Listed(
                "Compare servers by command lines, URLs, images or git refs.", "benchkit.cli.versus:versus"
            ),
            "capacity": Listed(
                "Find the highest rate at which latency stays within limits.", "benchkit.cli.versus:capacity"
            ),
        },
        "Run scenarios": {
            "validate": Listed("Validate scenario files.", "benchkit.cli.scenarios:validate"),
            "plan": Listed("Show cells, order, time and statistical power of a run.", "benchkit.cli.scenarios:plan"),
            "run": Listed("Run a scenario, or resume an interrupted run.", "benchkit.cli.run:run"),
            "service": Listed("Keep a scenario's stack up on its hosts, without load.", "benchkit.cli.service:app"),
            "fields": Listed("Show the fields of scenarios and inventories.", "benchkit.cli.scenarios:fields"),
        },
        "Read results": {
            "compare": Listed("Compare the cells of a run, or two runs; apply a gate.", "benchkit.cli.compare:compare"),
            "why": Listed("Show what differences consist of, and their causes.", "benchkit.cli.why:why"),
            "report": Listed("Write the report of a run.", "benchkit.cli.report:report"),
            "history": Listed("Show how a scenario's ratios changed over its runs.", "benchkit.cli.history:history"),
            "results": Listed("List, check, publish and remove stored runs.", "benchkit.cli.results:app"),
            "notebook": Listed("Open JupyterLab on the notebooks.", "benchkit.cli.report:notebook"),
        },
        "Hosts": {
            "lab": Listed("Start hosts on this machine.", "benchkit.cli.lab:app"),
            "hosts": Listed("Check, prepare and restore hosts.", "benchkit.cli.hosts:app"),
        },
        "Tools": {
            "parse": Listed("Read one output of a load tool.", "benchkit.cli.tools:parse"),
            "profile": Listed("Read a CPU profile of pprof or perf.", "benchkit.cli.profile:app"),
            "plugins": Listed("List the parts that other packages add.", "benchkit.cli.tools:plugins"),
        },
    }
)
"""Sections of the help, in its order."""

COMMANDS: Mapping[str, Listed] = MappingProxyType({name: each for of in SECTIONS.values() for name, each in of.items()})


@functools.cache
def plugin_commands(title: str) -> Registry[Any]:
    """Return the commands that plugins add to a section of the help, by entry points as `benchkit.commands.hosts`."""
    return Registry(f"benchkit.commands.{title.rsplit(maxsplit=1)[-1].lower()}", {}, Callable)


class Commands(TyperGroup):
    """Command group that imports a command on demand: to import all would take most of the time of a short command."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer has its own copy of click
        """Return the names of all commands in the order of the help."""
        return [name for title, of_section in SECTIONS.items() for name in (*of_section, *plugin_commands(title))]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the commands in sections, each with its line of help."""
        for title, of_section in SECTIONS.items():
            rows = [(name, each.help) for name, each in of_section.items()]
            rows += [(name, self.get_command(ctx, name).get_short_help_str(100)) for name in plugin_commands(title)]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return the command of that name; for an unknown name build all, so that Click can suggest similar ones."""
        names = [cmd_name] if cmd_name in COMMANDS else self.list_commands(ctx)
        for name in [cmd_name] if cmd_name in names else names:
            if name not in self.commands:
                self.commands[name] = _build_command(name)
        return super().get_command(ctx, cmd_name)


def _build_command(name: str) -> Any:  # noqa: ANN401
    if name in COMMANDS:
        module, _, attribute = COMMANDS[name].target.partition(":")
        command = getattr(import_module(module), attribute)
    else:
        command = next(found[name] for found in map(plugin_commands, SECTIONS) if name in found)
    standalone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        for subcommand, function in Registry[Any](f"benchkit.subcommands.{name}", {}, Callable).items():
            command.command(subcommand)(function)
        standalone.add_typer(command, name=name)
    else:
        standalone.command(name)(command)
    return get_group(standalone).commands[name]
