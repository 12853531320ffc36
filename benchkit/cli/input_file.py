"""Input files of commands, where `-` is stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from benchkit.errors import InputError

STDIN = "-"


def bytes_of(file: str) -> bytes:
    """Return the content of a file. Raises InputError where it cannot be read."""
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError("cannot read the file", where=file, why=getattr(error, "strerror", str(error))) from None


def name_of(file: str) -> str:
    """Return the name of an input file for messages."""
    return "stdin" if file == STDIN else file
