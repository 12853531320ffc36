"""The owner of a lab: the checkout and the user that started it.

It is in a file of its own, which is written before anything else of the lab: so it is known even where the lab's state
is damaged or was written by another version of benchkit.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from pydantic import Field

from benchkit.files import PACKAGE
from benchkit.models.base import Frozen


class LabOwner(Frozen):
    """The checkout and user to whom a lab belongs."""

    checkout: Path = Field(
        description="folder of the sources that started the lab, or the environment they are installed in"
    )
    user: str
    temporary_pid: int | None = Field(
        default=None, description="process that made the lab for itself, and removes it at its end"
    )

    def is_current(self) -> bool:
        """Return whether this checkout and user own the lab."""
        return (self.checkout, self.user) == (current_checkout(), current_user())

    def is_abandoned(self) -> bool:
        """Return whether the process that made the lab for itself has ended without removing it."""
        return self.temporary_pid is not None and not Path(f"/proc/{self.temporary_pid}").exists()

    def __str__(self) -> str:
        """Return the owner as a phrase for messages."""
        checkout = "this checkout" if self.checkout == current_checkout() else str(self.checkout)
        user = "" if self.user == current_user() else f" and user {self.user}"
        return (
            f"{checkout}{user}{'' if self.temporary_pid is None else f', temporary, for process {self.temporary_pid}'}"
        )


def describe_owner(owner: LabOwner | None) -> str:
    """Return the owner as a phrase for messages, also an unknown one."""
    return "an unknown owner: it was started by an older version of benchkit" if owner is None else str(owner)


def current_owner(temporary_pid: int | None = None) -> LabOwner:
    """Return this checkout and user as owner."""
    return LabOwner(checkout=current_checkout(), user=current_user(), temporary_pid=temporary_pid)


def current_checkout() -> Path:
    """Return the folder of the running sources, or the environment that benchkit is installed in."""
    sources = PACKAGE.parent
    return sources if (sources / "pyproject.toml").is_file() else Path(sys.prefix).resolve()


def current_user() -> str:
    """Return the user who works here; for root under sudo, the one who called it."""
    number = os.geteuid()
    if number == 0 and os.environ.get("SUDO_USER"):
        return os.environ["SUDO_USER"]
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"
