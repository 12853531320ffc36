"""Labs on this machine: `up` starts one, `down` removes it, `find_lab` returns one that is up.

A lab belongs to the checkout and user that started it; `benchkit.lab.choice` chooses the lab that a command uses.

As root on Linux, each host has namespaces of its own, on a private switch. Without root, or where the kernel allows no
namespaces, each host is an sshd on a loopback address. So are hosts that must reach loopback servers of this machine
(`LabSpec.on_loopback`). Both kinds are reached over OpenSSH with a temporary key.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.errors import InputError
from benchkit.hosts.inventory import HostSpec, Inventory
from benchkit.lab import loopback, namespaces
from benchkit.lab.inside.system import answers
from benchkit.lab.processes import NotPermittedError, find_init_processes, find_programs, find_sessions, kill_all
from benchkit.lab.spec import LabSpec
from benchkit.lab.state import (
    LabFolder,
    LabOwner,
    LabState,
    StartedHost,
    base_folder,
    boot_id,
    current_owner,
    describe_owner,
    locked,
)

ANSWER_TIMEOUT_S = 15.0
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    state: LabState
    folder: LabFolder = field(repr=False)
    owner: LabOwner | None = None
    """Checkout and user that started it; None where their record is missing or damaged."""
    fresh: bool = False
    """True where this call of `up` started the lab: its caller should then remove it."""

    @property
    def name(self) -> str:
        """Name of the lab."""
        return self.state.spec.name

    @property
    def hosts(self) -> tuple[StartedHost, ...]:
        """The lab's hosts as they were started."""
        return self.state.hosts

    def inventory(self) -> Inventory:
        """Return the lab as an inventory, with the limits of its hosts."""
        return Inventory(
            lab=self.name,
            hosts=tuple(
                HostSpec(
                    name=host.name,
                    address=host.address,
                    port=host.port,
                    user=self.state.user,
                    identity=self.folder.identity,
                    known_hosts=self.folder.known_hosts,
                    roles=host.roles,
                    workdir=host.workdir,
                    link_bps=host.link_bps,
                )
                for host in self.hosts
            ),
            limits=self.state.limits,
            not_isolated=self.state.not_isolated,
        )

    def answering(self) -> dict[str, bool]:
        """Return, by host name, True where the host's SSH server answers now."""
        return {host.name: answers(host.address, host.port, ANSWER_TIMEOUT_S) for host in self.hosts}

    def has_session(self, pid: int) -> bool:
        """Return True where a process of this machine was started in a session on one of the hosts."""
        return any(process.pid == pid for process in find_sessions(self.folder.key))

    def ssh_command(self, host: str) -> list[str]:
        """Return the command that logs in to a host."""
        return ["ssh", "-F", str(self.folder.ssh_config), host]


def find_lab(name: str) -> Lab | None:
    """Return the lab of this name, whoever owns it; None where one of its init processes is missing."""
    folder = _folder(name)
    state = folder.read()
    return Lab(state, folder, folder.owner()) if state is not None and _is_alive(state, folder) else None


def labs_up() -> list[Lab]:
    """Return all labs that are up and whose files this user may read, by name."""
    return [lab for name in lab_names() if (lab := find_lab(name)) is not None]


def lab_names() -> list[str]:
    """Return the names of this user's labs that have a folder on this machine, up or not."""
    base = base_folder()
    return sorted(entry.name for entry in base.iterdir() if entry.is_dir()) if base.is_dir() else []


def owner_of(name: str) -> LabOwner | None:
    """Return the owner of the lab of this name, up or not; None for an unknown owner."""
    return _folder(name).owner()


def has_processes(name: str) -> bool:
    """Return True where an init process of the lab is running, even if the lab's state is damaged or unreadable."""
    return bool(find_init_processes(_folder(name).key))


def up(spec: LabSpec, *, progress: Progress | None = None, temporary: bool = False) -> Lab:
    """Start the lab, or return it where it is already up with the same hosts.

    Removes the remains of a killed `up` first. Other processes never choose a `temporary` lab by default. After an
    error nothing of the lab remains.

    Raises InputError if a lab of that name has another owner or other hosts, if a program is missing, and on systems
    other than Linux. Raises HostError if the lab does not start.
    """
    require_linux()
    report = progress or (lambda _: None)
    folder = _folder(spec.name)
    owner = current_owner(os.getpid() if temporary else None)
    with locked(base_folder()):
        if has_processes(spec.name):
            present_owner = folder.owner()
            if present_owner is None or not present_owner.is_current():
                raise InputError(
                    f"the lab {spec.name!r} is not yours to start",
                    why=f"it belongs to {describe_owner(present_owner)}",
                    hint=f"give the new lab another `--name`; commands can use this one with `--lab {spec.name}`",
                )
        state = folder.read()
        if state is not None and _is_alive(state, folder):
            if state.spec != spec:
                raise InputError(
                    f"the lab {spec.name!r} is already up with other hosts",
                    why=f"its hosts are {', '.join(host.name for host in state.hosts)}",
                    hint="run `benchkit lab down` first, or give the new lab another `--name`",
                )
            return Lab(state, folder, folder.owner())
        _remove(folder)
        try:
            return _start(spec, folder, owner, report)
        except BaseException:  # Ctrl-C too
            _remove(folder)
            raise


def down(name: str) -> bool:
    """Remove the lab of this name with all its processes, links and files. Return False where there was none.

    It checks neither the owner of the lab nor its use; `benchkit.lab.choice.require_removable` does.
    """
    require_linux()
    folder = _folder(name)
    if not base_folder().is_dir() and not find_init_processes(folder.key):
        return False
    with locked(base_folder()):
        return _remove(folder)


def _start(spec: LabSpec, folder: LabFolder, owner: LabOwner, report: Progress) -> Lab:
    reason = None
    if os.geteuid() == 0 and not spec.on_loopback:
        programs = find_programs(namespaces.required_programs(spec))
        folder.create(owner)
        state = namespaces.plan(spec, folder, programs)
        folder.write(state)
        try:
            return _started(namespaces.start(state, folder, programs), folder, owner)
        except NotPermittedError as error:
            reason = error.why or error.what
            report(f"namespaces are not available, so hosts use loopback addresses: {reason}")
            _remove(folder)
    programs = find_programs(loopback.PROGRAMS)
    folder.create(owner)
    state = loopback.plan(spec, folder, reason=reason)
    folder.write(state)
    return _started(loopback.start(state, folder, programs), folder, owner)


def _started(state: LabState, folder: LabFolder, owner: LabOwner) -> Lab:
    folder.write(state)
    return Lab(state, folder, owner, fresh=True)


def _remove(folder: LabFolder) -> bool:
    """Remove everything of a lab, in an order that works after any interruption.

    Return False where there was nothing.
    """
    state = folder.read()
    killed_any = kill_all(folder.key)
    namespaces.clean_up(state, folder)
    return folder.remove() or killed_any


def _is_alive(state: LabState, folder: LabFolder) -> bool:
    if not state.ready or state.boot_id != boot_id():
        return False
    parts = {init.part for init in find_init_processes(folder.key) if init.lab_id == state.lab_id}
    if state.mode == "loopback":
        return "supervisor" in parts
    return parts.issuperset({"switch", *(f"host/{host.name}" for host in state.hosts)})


def require_linux() -> None:
    """Raise InputError where this machine cannot have a lab."""
    if sys.platform != "linux":
        raise InputError(
            "a lab needs Linux",
            why=f"this is {sys.platform}",
            hint="list your own hosts in an inventory and pass it with -i",
        )


def _folder(name: str) -> LabFolder:
    return LabFolder(base_folder(), name)
