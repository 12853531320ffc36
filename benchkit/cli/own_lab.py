"""A lab that one command starts for itself and removes at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.lab.lab import Lab


@contextmanager
def own_lab(command: str, *, quiet: bool = False) -> Iterator[Lab]:
    """Yield a new lab that nothing else uses, named after the command, and remove it at the end."""
    from benchkit.cli.console import say
    from benchkit.lab.choice import remove_abandoned
    from benchkit.lab.lab import down, up
    from benchkit.lab.spec import LabSpec

    remove_abandoned()
    name = f"{command}-{os.getpid()}"
    try:
        lab = up(LabSpec(name=name), temporary=True)
        if not quiet:
            say(f"lab: {name}, of this command; it is removed at the end")
        yield lab
    finally:
        down(name)
