"""Folders that a host may have of its own, so that files in them on this machine are not seen there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

PRIVATE_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names for a message
"""Folders of which each host of a lab has its own."""

_PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, PRIVATE_FOLDERS))})/[^\s\"'`:;,()\[\]]+")


def hint_at_private_folder(*texts: str | None, is_on_host: Callable[[str], bool] = lambda _: False) -> str | None:
    """Return a hint for a path in these texts that this machine has, in a folder that a host may have of its own.

    `is_on_host` tells if the host has a path as well: then it needs no hint.
    """
    for text in texts:
        for path in _PATH.findall(text or ""):
            if Path(path).exists() and not is_on_host(path):
                folder = next(folder for folder in PRIVATE_FOLDERS if path.startswith(f"{folder}/"))
                return (
                    f"{path} is on this machine; a host of a lab has a {folder} of its own and does not see it: "
                    "put the file into another folder, such as that of the scenario"
                )
    return None
