"""Secrets of deployed services that the controller creates once and keeps, each in a file that only its user reads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

STATE_ENVIRONMENT = "XDG_STATE_HOME"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def secrets_folder() -> Path:
    """Return the folder of the secrets.

    A deleted secret is replaced by a new one, and hosts reject copies of the old.
    """
    base = os.environ.get(STATE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".local" / "state") / "benchkit" / "kept"


def get_or_create(name: str, create: Callable[[], bytes]) -> bytes:
    """Return the secret of this name; create it first if there is none. Safe for many processes at once."""
    path = secret_path(name)
    if not path.exists():
        with _temporary_file(path, create()) as temporary, contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # fails if another process was faster: its secret is used then
    return path.read_bytes()


def save_copy(name: str, content: bytes) -> bytes:
    """Save content under this name, for the people whom the instructions of a service send there, and return it."""
    path = secret_path(name)
    with _temporary_file(path, content) as temporary:
        temporary.replace(path)
    return content


def secret_path(name: str) -> Path:
    """Return the file of this name: readable where the name is plain ASCII, and different for different names."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return secrets_folder() / f"{_UNSAFE.sub('-', name).strip('-')[:60]}.{digest}"


@contextlib.contextmanager
def _temporary_file(path: Path, content: bytes) -> Iterator[Path]:
    """Give a synced file in the folder of `path` with this content, and remove it in the end unless it was moved."""
    for folder in (path.parent.parent, path.parent):  # mkdir gives its mode to the last folder of a path alone
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
