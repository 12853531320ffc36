"""Choice of the hosts that a command works on: the given inventory, or a lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.errors import InputError

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory


def inventory_of(path: Path | None, lab: str | None = None, *, quiet: bool = False) -> Inventory:
    """Return the inventory at `path`, or that of a lab: the named one, else the one of this checkout and user.

    Unless `quiet`, a line on stderr names the lab and its owner. Raises InputError where there is neither.
    """
    if path is not None:
        if lab is not None:
            raise InputError("-i and --lab exclude each other", hint="give the inventory or the lab, not both")
        from benchkit.hosts.inventory import load_inventory

        return load_inventory(path)
    from benchkit.cli.console import say
    from benchkit.lab.choice import choose_lab
    from benchkit.lab.state import describe_owner

    chosen = choose_lab(lab)
    if not quiet:
        say(f"lab: {chosen.name}, of {describe_owner(chosen.owner)}")
    return chosen.inventory()
