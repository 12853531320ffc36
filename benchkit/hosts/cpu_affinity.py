"""CPU affinity of the controller on a machine that is also a host: it avoids the CPUs of the servers.

All hosts of a lab are this machine, and a host of an inventory may be. On other machines the affinity stays as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchkit.models.run import ControllerRecord

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str | None:
    """Return the boot id of this machine, as in the facts of hosts; None on systems other than Linux."""
    return _BOOT_ID.read_text(encoding="ascii").strip() if sys.platform == "linux" else None


def pid_namespace(pid: int | str) -> str | None:
    """Return the PID namespace of a process; None where it is hidden, as for other users' processes."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def controller_record(servers: Mapping[str, Collection[int]]) -> ControllerRecord:
    """Return the machine of this process and the CPUs to use; `servers`: boot id of a machine → CPUs of its servers.

    On a machine with servers, use the CPUs without servers, or all own CPUs where none remains.
    """
    machine = this_machine()
    if machine is None:
        return ControllerRecord()
    own = frozenset(os.sched_getaffinity(0))
    free = own - frozenset(servers.get(machine, ()))
    return ControllerRecord(machine=machine, cpus=tuple(sorted(free or own)))


@contextmanager
def pinned(record: ControllerRecord) -> Iterator[None]:
    """Run this process, with all its threads, on the CPUs of its record within the context."""
    if not record.cpus:
        yield
        return
    former = os.sched_getaffinity(0)
    _set_affinity(record.cpus)
    try:
        yield
    finally:
        _set_affinity(former)


def _set_affinity(cpus: Collection[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(int(thread.name), cpus)
