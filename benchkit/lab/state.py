"""What is known about a lab between two commands: one folder with its keys, logs and state, and a lock over all labs.

The state is written before anything is made, so that `down` finds all of it, whenever `up` was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from benchkit.errors import HostError
from benchkit.lab.spec import LabSpec
from benchkit.models.base import Frozen

ROOT_BASE = Path("/run/benchkit")
LOCK_DEADLINE_S = 60.0
_LOCK_POLL_S = 0.02
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE = "state.json"


class HostState(Frozen):
    """One host as it was made."""

    name: str
    roles: tuple[str, ...]
    address: str
    port: int
    cpus: tuple[int, ...]
    link_bps: float | None
    workdir: str


class LabState(Frozen):
    """A lab as it was made, or is being made while `ready` is false."""

    version: Literal[1] = 1
    lab_id: str
    boot_id: str
    ready: bool
    spec: LabSpec
    mode: Literal["namespaces", "loopback"]
    user: str
    created_at: float
    subnet: str | None = None
    hosts: tuple[HostState, ...]
    made: tuple[Path, ...] = ()
    cgroups: tuple[Path, ...] = ()
    limits: tuple[str, ...] = ()
    not_isolated: tuple[str, ...] = ()


def base_folder() -> Path:
    """Where this user's labs are kept: on a file system that a restart of the machine empties, where there is one."""
    if os.geteuid() == 0:
        return ROOT_BASE
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):  # `su` keeps the variable and not the right
        return Path(runtime) / "benchkit"
    return Path.home() / ".cache" / "benchkit-lab"


class LabFolder:
    """The folder of one lab."""

    def __init__(self, base: Path, name: str) -> None:
        """`base` holds the folders of all labs."""
        self.path = base / name
        self.key = hashlib.sha256(str(self.path).encode()).hexdigest()[:8]
        """Stands for this lab in names of links, groups and processes, where there is room for little."""
        self.identity = self.path / "identity"
        self.known_hosts = self.path / "known_hosts"
        self.ssh_config = self.path / "ssh_config"

    @property
    def link(self) -> str:
        """The lab's one network link on the machine; the kernel allows 15 characters."""
        return f"bk-{self.key}"

    def host_key(self, host: str) -> Path:
        """The private key of a host's sshd."""
        return self.path / f"{host}.host_key"

    def log(self, part: str) -> Path:
        """What a first process and its sshd had to say."""
        return self.path / f"{part}.log"

    def make(self) -> None:
        """Make the folder, for its user alone."""
        self.path.mkdir(mode=0o700)

    def write(self, state: LabState) -> None:
        """Put the state in place as a whole."""
        new = self.path / f"{_STATE}.new"
        new.write_text(state.model_dump_json(indent=1))
        new.rename(self.path / _STATE)

    def read(self) -> LabState | None:
        """The state; None without one that this version understands."""
        try:
            return LabState.model_validate_json((self.path / _STATE).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None

    def remove(self) -> bool:
        """Remove the folder with all in it; True where there was one."""
        if not self.path.is_dir():
            return False
        shutil.rmtree(self.path)
        return True


def boot_id() -> str:
    """What tells this run of the machine from those before and after."""
    return _BOOT_ID.read_text().strip()


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """Hold the only right to make or remove labs below `base`; the folder is made if need be and goes when it is empty.

    The lock is the folder's own (flock), so nothing of it is left behind, not even after a kill.
    """
    descriptor = _lock(base)
    try:
        yield
    finally:
        if not any(base.iterdir()):
            base.rmdir()
        os.close(descriptor)


def _lock(base: Path) -> int:
    deadline = time.monotonic() + LOCK_DEADLINE_S
    while True:
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # the last one out removed it just now
        except OSError as error:
            raise HostError("cannot keep the state of a lab", where=str(base), why=error.strerror) from None
        facts = os.fstat(descriptor)
        if facts.st_uid != os.geteuid():
            os.close(descriptor)
            raise HostError("belongs to somebody else", where=str(base), hint="remove that folder or have it removed")
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise HostError("another `benchkit lab` command holds the labs", where=str(base), hint="wait for it")
            time.sleep(_LOCK_POLL_S)
        try:
            if base.stat().st_ino == facts.st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # what was locked is no longer the folder; lock the new one


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
