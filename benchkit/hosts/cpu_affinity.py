"""This process on a machine that is also a host: kept off the CPUs of the servers while they are measured.

A lab's hosts are this machine, and so may be a host of an inventory; everywhere else there is nothing to keep apart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchkit.models.run import ControllerRecord

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def controller(servers: Mapping[str, Collection[int]]) -> ControllerRecord:
    """What this process is beside servers that may run on these CPUs of these machines, which are named by boot id.

    On a machine of theirs it has the CPUs that they have not; all of its own where they have them all.
    """
    if sys.platform != "linux":
        return ControllerRecord()
    machine, own = _BOOT_ID.read_text(encoding="ascii").strip(), frozenset(os.sched_getaffinity(0))
    left = own - frozenset(servers.get(machine, ()))
    return ControllerRecord(machine=machine, cpus=tuple(sorted(left or own)))


@contextmanager
def confined(record: ControllerRecord) -> Iterator[None]:
    """This process, with all its threads, on the CPUs of its record for a while."""
    if not record.cpus:
        yield
        return
    former = os.sched_getaffinity(0)
    _confine(record.cpus)
    try:
        yield
    finally:
        _confine(former)


def _confine(cpus: Collection[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), cpus)
