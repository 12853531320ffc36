"""The servers and hosts of `versus` and `capacity`: their options, and what follows from these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.models.base import SplitCpus

SERVER_HELP = (
    "Command line of each server, in quotes ({port} stands for its port), or the URL of one that is up. {controller} in a "
    "URL is this machine, as hosts reach it."
)
Names = Annotated[str | None, typer.Option("--names", metavar="A,B,…", help="Names of the servers.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--files",
        metavar="PATH",
        help="File or folder that the servers need, carried to the hosts of -i; repeatable. In a lab they need none: they "
        "start in this folder, with this shell's PATH (the hosts of --lab have a /tmp of their own).",
    ),
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write the scenario that ran, to continue from it.")
]


Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="File (PEM) that verifies https URLs: their certificate or its authority's.",
    ),
]


class Place(TypedDict):
    """Fields of a `Comparison` that say where its servers start."""

    files: tuple[str, ...]
    cwd: str | None
    search_path: str | None
    cpus: SplitCpus | None


def place_of(files: Sequence[Path], inventory: Path | None, lab: str | None) -> Place:
    """Return where servers start: in a lab in this folder, with this shell's PATH, unless files are carried."""
    from benchkit.cli.calibration import search_path
    from benchkit.cli.own_lab import split_cpus

    carried = tuple(str(file.resolve()) for file in files)
    return {
        "files": carried,
        "cwd": None if carried or inventory is not None else str(Path.cwd()),
        "search_path": search_path(inventory),
        "cpus": split_cpus() if inventory is None and lab is None else None,
    }


def named_servers(servers: Sequence[str], names: str | None) -> dict[str, str]:
    """Return the servers by name. Raises BadParameter for none, InputError for names that do not fit."""
    from benchkit.scenario.versus import server_names

    if not servers:
        why = "name the servers, each by its command line in quotes or its URL; one alone is measured"
        raise typer.BadParameter(why, param_hint="SERVER")
    given = [name.strip() for name in names.split(",")] if names else []
    return dict(zip(server_names(servers, given), servers, strict=True))


@contextmanager
def hosts_for(
    command: str, servers: Sequence[str], inventory: Path | None, lab: str | None, *, quiet: bool
) -> Iterator[Inventory]:
    """Yield the hosts that the options name, or those of a lab of the command's own."""
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.own_lab import own_lab
    from benchkit.scenario.versus import is_on_this_machine

    if inventory is None and lab is None:
        on_loopback = any(map(is_on_this_machine, servers))
        with own_lab(command, is_one_host=True, on_loopback=on_loopback, quiet=quiet) as started:
            yield started.inventory()
    else:
        yield inventory_of(inventory, lab, quiet=quiet)
