"""Input files of commands, where `-` is stdin."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from benchkit.errors import InputError
from benchkit.files import read_bounded

STDIN = "-"


def bytes_of(file: str) -> bytes:
    """Return the content of a file or a pipe. Raises InputError where it cannot be read."""
    try:
        if file == STDIN:
            return read_bounded(sys.stdin.buffer, "stdin")
        with Path(file).open("rb") as opened:
            if stat.S_ISCHR(os.fstat(opened.fileno()).st_mode):
                raise InputError("cannot read the file", where=file, why="a device, which need not end")
            return read_bounded(opened, file)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", str(error))
        raise InputError("cannot read the file", where=name_of(file), why=why) from None


def name_of(file: str) -> str:
    """Return the name of an input file for messages."""
    return "stdin" if file == STDIN else file
