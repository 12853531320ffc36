"""Choice of the hosts that a command works on: the given inventory, or the lab that is up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.errors import InputError

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory


def inventory_of(path: Path | None) -> Inventory:
    """Return the inventory at `path`, or that of the lab that is up. Raises InputError where there is neither."""
    if path is not None:
        from benchkit.hosts.inventory import load_inventory

        return load_inventory(path)
    from benchkit.lab.lab import find_lab

    lab = find_lab()
    if lab is None:
        raise InputError(
            "no inventory was given and no lab is up",
            hint="`benchkit lab up` makes hosts on this machine; -i INV names your own",
        )
    return lab.inventory()
