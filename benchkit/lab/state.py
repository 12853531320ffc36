"""State of a lab between two commands: a folder with its keys, logs, owner and state, and a lock for all labs.

The state is written before anything is created, so that `down` finds everything, even where `up` was killed. The owner
is the checkout and the user that started the lab. The owner's own file is written first, so that the owner is known
even where the state is damaged.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from benchkit.errors import HostError
from benchkit.files import PACKAGE
from benchkit.lab.spec import LabSpec
from benchkit.models.base import Frozen

ROOT_BASE = Path("/run/benchkit")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE = "state.json"
_OWNER = "owner.json"
Record = TypeVar("Record", bound=Frozen)


class LabOwner(Frozen):
    """The checkout and user to whom a lab belongs."""

    checkout: Path = Field(
        description="folder of the sources that started the lab, or the environment they are installed in"
    )
    user: str
    temporary_pid: int | None = Field(
        default=None, description="process that started the lab for itself, and removes it at its own end"
    )

    def is_current(self) -> bool:
        """Return True where this checkout and user own the lab."""
        return (self.checkout, self.user) == (current_checkout(), current_user())

    def is_abandoned(self) -> bool:
        """Return True where the process that started a temporary lab has ended without removing it."""
        return self.temporary_pid is not None and not Path(f"/proc/{self.temporary_pid}").exists()

    def __str__(self) -> str:
        checkout = "this checkout" if self.checkout == current_checkout() else str(self.checkout)
        user = "" if self.user == current_user() else f" and user {self.user}"
        return (
            f"{checkout}{user}{'' if self.temporary_pid is None else f', temporary, for process {self.temporary_pid}'}"
        )


def describe_owner(owner: LabOwner | None) -> str:
    """Return a known or unknown owner as a phrase for messages."""
    return "an unknown owner: its record is missing or damaged" if owner is None else str(owner)


def current_owner(temporary_pid: int | None = None) -> LabOwner:
    """Return this checkout and user as owner."""
    return LabOwner(checkout=current_checkout(), user=current_user(), temporary_pid=temporary_pid)


def current_checkout() -> Path:
    """Return the folder of the running sources, or the environment that benchkit is installed in."""
    sources = PACKAGE.parent
    return sources if (sources / "pyproject.toml").is_file() else Path(sys.prefix).resolve()


def current_user() -> str:
    """Return the current user; for root under sudo, the user who called sudo."""
    number = os.geteuid()
    if number == 0 and os.environ.get("SUDO_USER"):
        return os.environ["SUDO_USER"]
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


def boot_id() -> str:
    """Return the kernel's identifier of the current boot."""
    return _BOOT_ID.read_text().strip()


class StartedHost(Frozen):
    """One host as it was started."""

    name: str
    roles: tuple[str, ...]
    address: str
    port: int
    cpus: tuple[int, ...]
    workdir: str
    link_bps: float | None = None


class LabState(Frozen):
    """A lab as it was started; while `ready` is false, it is being started."""

    version: Literal[1] = 1
    lab_id: str = Field(default_factory=lambda: secrets.token_hex(4))
    boot_id: str = Field(default_factory=boot_id)
    ready: bool = False
    spec: LabSpec
    mode: Literal["namespaces", "loopback"]
    user: str
    created_at: float = Field(default_factory=time.time)
    subnet: str | None = None
    hosts: tuple[StartedHost, ...]
    cgroups: tuple[Path, ...] = ()
    limits: tuple[str, ...] = ()
    not_isolated: tuple[str, ...] = ()


def base_folder() -> Path:
    """Return the folder of this user's labs; if possible, on a file system that a restart empties."""
    if os.geteuid() == 0:
        return ROOT_BASE
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):  # `su` keeps the variable of a user whose folder is then not writable
        return Path(runtime) / "benchkit"
    return Path.home() / ".cache" / "benchkit-lab"


class LabFolder:
    """The folder of one lab."""

    def __init__(self, base: Path, name: str) -> None:
        self.path = base / name
        self.key = hashlib.sha256(str(self.path).encode()).hexdigest()[:8]
        """Short identifier of the lab, for names of links, control groups and processes."""
        self.identity = self.path / "identity"
        self.known_hosts = self.path / "known_hosts"
        self.ssh_config = self.path / "ssh_config"

    @property
    def link(self) -> str:
        """Name of the lab's network link on this machine; the kernel allows 15 characters."""
        return f"bk-{self.key}"

    def host_key(self, host: str) -> Path:
        """Return the path of the private key of a host's sshd."""
        return self.path / f"{host}.host_key"

    def log(self, part: str) -> Path:
        """Return the path of the log of an init process and its sshd."""
        return self.path / f"{part}.log"

    def create(self, owner: LabOwner) -> None:
        """Create the folder, accessible to its user alone, and record the lab's owner."""
        self.path.mkdir(mode=0o700)
        (self.path / _OWNER).write_text(owner.model_dump_json())

    def write(self, state: LabState) -> None:
        """Write the state, replacing the file atomically."""
        new = self.path / f"{_STATE}.new"
        new.write_text(state.model_dump_json(indent=1))
        new.rename(self.path / _STATE)

    def read(self) -> LabState | None:
        """Return the state; None where there is none that this version can read."""
        return self._read(_STATE, LabState)

    def owner(self) -> LabOwner | None:
        """Return the owner of the lab; None where the record is missing or damaged."""
        return self._read(_OWNER, LabOwner)

    def _read(self, name: str, model: type[Record]) -> Record | None:
        try:
            return model.model_validate_json((self.path / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None

    def remove(self) -> bool:
        """Remove the folder with its content. Return False where there was none."""
        if not self.path.is_dir():
            return False
        shutil.rmtree(self.path)
        return True


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """Hold the exclusive lock for starting and removing labs below `base`; it ends with the process, even by a kill.

    The folder is created if missing. Raises HostError where it is another user's.
    """
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise HostError("cannot keep the state of a lab", where=str(base), why=error.strerror) from None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise HostError("the folder belongs to another user", where=str(base), hint="have its owner remove it")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
