"""What the controller makes once and keeps for itself: the secrets of services that it deploys, each in a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

STATE_ENVIRONMENT = "XDG_STATE_HOME"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def kept_folder() -> Path:
    """Where they are kept, for nobody else to read; what is deleted is made anew, and no old copy is accepted any more."""
    base = os.environ.get(STATE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".local" / "state") / "benchkit" / "kept"


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """What is kept under that name; made now where nothing is, by one of many processes that may want it at once."""
    path = kept_path(name)
    if not path.exists():
        with _written(path, make()) as part, contextlib.suppress(FileExistsError):
            os.link(part, path)  # unless another process was faster: its is the one
    return path.read_bytes()


def handed_out(name: str, content: bytes) -> bytes:
    """The content, a copy of it put beside what is kept: for people, who are told where it is."""
    path = kept_path(name)
    with _written(path, content) as part:
        part.replace(path)
    return content


@contextlib.contextmanager
def _written(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside `path` with this content, on disk; it is gone in the end unless it was moved."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)


def kept_path(name: str) -> Path:
    """The file of that name: readable as far as names are, and never the same for two."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return kept_folder() / f"{_UNSAFE.sub('-', name).strip('-')[:60]}.{digest}"
