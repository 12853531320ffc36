"""A lab on this machine: `up`, `down`, and the one that is up.

As root on Linux each host has namespaces of its own on a private switch; otherwise, or where the kernel does not allow
that, each is an sshd on a loopback address. Either way a host is reached over OpenSSH with a throwaway key.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.errors import HostError, InputError
from benchkit.hosts.inventory import HostSpec, Inventory
from benchkit.lab import loopback, namespaces
from benchkit.lab.first_process import NotPermittedError
from benchkit.lab.inside.messages import answers
from benchkit.lab.processes import end_all, marked
from benchkit.lab.programs import find_programs
from benchkit.lab.spec import LabSpec, lab_name
from benchkit.lab.state import HostState, LabFolder, LabState, base_folder, boot_id, locked

ANSWER_TIMEOUT_S = 2.0
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    state: LabState
    folder: LabFolder = field(repr=False)
    fresh: bool = False
    """Whether the call that returned it made it; who made a lab takes it down."""

    @property
    def name(self) -> str:
        """What `--name` calls it."""
        return self.state.spec.name

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """Its hosts as they were made."""
        return self.state.hosts

    def inventory(self) -> Inventory:
        """The lab as an inventory, with what its hosts cannot do."""
        return Inventory(
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
        """For each host, whether its SSH server answers now."""
        return {host.name: answers(host.address, host.port, ANSWER_TIMEOUT_S) for host in self.hosts}

    def ssh_command(self, host: str) -> list[str]:
        """The command by which a person logs in to a host."""
        return ["ssh", "-F", str(self.folder.ssh_config), host]


def current(name: str | None = None) -> Lab | None:
    """The lab of this name (default: `$BENCHKIT_LAB`, else `lab`) if all its first processes live, else None."""
    folder = _folder(lab_name(name))
    state = folder.read()
    return Lab(state, folder) if state is not None and _is_alive(state, folder) else None


def up(spec: LabSpec, *, progress: Progress | None = None) -> Lab:
    """Make the lab, or return it as it is when it is up already in this shape; what a killed `up` left goes first.

    Raises InputError where a lab of that name is up in another shape, a program is missing or this is not Linux;
    HostError where it does not come up. Whatever is raised, nothing is left behind.
    """
    _require_linux()
    tell = progress or (lambda _: None)
    folder = _folder(spec.name)
    with locked(base_folder()):
        state = folder.read()
        if state is not None and _is_alive(state, folder):
            lab = Lab(state, folder)
            _require_shape(state.spec, spec)
            _require_answers(lab)
            return lab
        _take_down(folder)
        try:
            return _make(spec, folder, tell)
        except BaseException:  # Ctrl-C too leaves nothing behind
            _take_down(folder)
            raise


def down(name: str | None = None) -> bool:
    """Take the lab of this name away; returns once processes, links and files are gone. False where there was none."""
    _require_linux()
    folder = _folder(lab_name(name))
    if not base_folder().is_dir() and not marked(folder.key):
        return False
    with locked(base_folder()):
        return _take_down(folder)


def names() -> list[str]:
    """The labs of this user that have left anything on this machine, up or not."""
    base = base_folder()
    return sorted(entry.name for entry in base.iterdir() if entry.is_dir()) if base.is_dir() else []


def _make(spec: LabSpec, folder: LabFolder, tell: Progress) -> Lab:
    reason = None
    if os.geteuid() == 0:
        found = find_programs(namespaces.programs(spec))
        folder.make()
        state = namespaces.plan(spec, folder, secrets.token_hex(4), found, time.time())
        folder.write(state)
        try:
            state = namespaces.build(state, folder, found)
        except NotPermittedError as error:
            reason = error.why or error.what
            tell(f"no namespaces here, so hosts on loopback: {reason}")
            _take_down(folder)
    if os.geteuid() != 0 or reason is not None:
        found = find_programs(loopback.PROGRAMS)
        folder.make()
        state = loopback.plan(spec, folder, secrets.token_hex(4), time.time(), reason=reason)
        folder.write(state)
        state = loopback.build(state, folder, found)
    folder.write(state)
    return Lab(state, folder, fresh=True)


def _take_down(folder: LabFolder) -> bool:
    """End and remove everything of a lab, in the order that works after any interruption."""
    state = folder.read()
    ended = end_all(folder.key)
    loopback.take_away(state)
    namespaces.take_away(state, folder)
    return folder.remove() or ended


def _is_alive(state: LabState, folder: LabFolder) -> bool:
    if not state.ready or state.boot_id != boot_id():
        return False
    parts = {one.part for one in marked(folder.key) if one.lab_id == state.lab_id}
    if state.mode == "loopback":
        return "keeper" in parts
    return parts.issuperset({"switch", *(f"host/{host.name}" for host in state.hosts)})


def _require_shape(there: LabSpec, asked: LabSpec) -> None:
    if there != asked:
        raise InputError(
            f"the lab {there.name!r} is up in another shape",
            why=f"it has {there.described()}; asked for: {asked.described()}",
            hint="`benchkit lab down` first, or give the other one a `--name`",
        )


def _require_answers(lab: Lab) -> None:
    """A lab in use may be silent for a reason, as with a link cut on purpose: it is left as it is."""
    silent = [host for host, answer in lab.answering().items() if not answer]
    if silent:
        raise HostError(
            f"no answer from {', '.join(silent)}",
            where=f"lab {lab.name!r}",
            why=f"the lab is up, but its SSH server says nothing within {ANSWER_TIMEOUT_S:g} s",
            hint="unless a run is using it: `benchkit lab down`, then `benchkit lab up`",
        )


def _require_linux() -> None:
    if sys.platform != "linux":
        raise InputError(
            "a lab needs Linux",
            why=f"this is {sys.platform}",
            hint="describe hosts of your own in an inventory and pass it with -i",
        )


def _folder(name: str) -> LabFolder:
    return LabFolder(base_folder(), name)
