"""What the controller makes once and keeps for itself: the secrets of services that it deploys, each in a file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
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
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)
    except FileExistsError:  # another process was faster, and its is the one
        pass
    finally:
        part.unlink(missing_ok=True)
    return path.read_bytes()


def kept_path(name: str) -> Path:
    """The file of that name: readable as far as names are, and never the same for two."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return kept_folder() / f"{_UNSAFE.sub('-', name).strip('-')[:60]}.{digest}"
