"""known_hosts files as text (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

USUAL_PORT = 22
_MARKER, _KEY, _FIELDS = 0, 3, 4


def known_name(host: str, port: int) -> str:
    """A host as known_hosts files name it."""
    return host if port == USUAL_PORT else f"[{host}]:{port}"


def read_lines(file: Path) -> list[list[str]]:
    """The fields of each line of a file; none where it is absent or may not be read."""
    try:
        return [line.split() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:  # absent, as most of them are
        return []


def revoked_keys(lines: Iterable[list[str]]) -> frozenset[str]:
    """The keys, in base64, that lines forbid."""
    return frozenset(fields[_KEY] for fields in lines if fields[:1] == ["@revoked"] and len(fields) >= _FIELDS)


def is_plain(fields: list[str]) -> bool:
    """Whether a line names hosts and a key of theirs: no comment, no marker."""
    return bool(fields) and not fields[_MARKER].startswith(("#", "@"))
