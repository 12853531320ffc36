"""The text format of known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchkit.files import read_regular

DEFAULT_PORT = 22
_MARKER, _KEY, _FIELDS = 0, 3, 4


def known_name(host: str, port: int) -> str:
    """Return a host's name as known_hosts files write it."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def read_lines(file: Path) -> list[list[str]]:
    """Return the fields of each line of a file; nothing where it does not exist or cannot be read."""
    try:
        return [line.split() for line in read_regular(file).decode("utf-8", "replace").splitlines()]
    except OSError:  # most of these files do not exist
        return []


def revoked_keys(lines: Iterable[list[str]]) -> frozenset[str]:
    """Return the keys, in base64, that lines revoke."""
    return frozenset(fields[_KEY] for fields in lines if fields[:1] == ["@revoked"] and len(fields) >= _FIELDS)


def is_plain(fields: list[str]) -> bool:
    """Return True for a line with hosts and a key: no comment, no marker."""
    return bool(fields) and not fields[_MARKER].startswith(("#", "@"))
