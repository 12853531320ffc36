"""Programs that use CPU time of a run's hosts and are no part of the run, by two looks at all processes.

A host of a lab sees its own processes only, while others share its cores: for a lab, which is on this machine, the
controller looks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.cpu_affinity import pid_namespace, this_machine
from benchkit.hosts.processes import SeenProcess
from benchkit.models.clean_text import clean
from benchkit.models.trial import OtherProgram

MOST = 3
"""Programs that are named."""
LEAST_CORES = 0.02
"""CPU time from which a program is named, in cores."""
KERNEL_THREADS = "kthreadd"
"""Parent of all kernel threads, whose work is mostly that for the packets of the load."""


class ProcessKey(NamedTuple):
    """Unique identity of a process."""

    machine: str
    pid: int
    start: float


@dataclass(frozen=True)
class ProcessSnapshot:
    """The processes of all machines of a run that are no part of it, at one time."""

    at_s: float
    processes: Mapping[ProcessKey, SeenProcess]


def take_snapshot(hosts: Hosts) -> ProcessSnapshot:
    """Return the processes on the machines of these hosts that are no part of the run. Raises HostError."""
    listings = run_on_hosts(list(hosts), lambda host: host.processes.list_all())
    here, own_namespace = this_machine(), pid_namespace("self")
    found: dict[ProcessKey, SeenProcess] = {}
    if hosts.inventory.lab is not None:
        hidden = {each.namespace for each in listings} - {own_namespace}
        visible = [each for each in _processes_of_this_machine() if pid_namespace(each.pid) not in hidden]
        agents = {each.agent for each in listings if each.namespace not in hidden}
        _add(found, str(here), visible, {os.getpid(), *agents})
        return ProcessSnapshot(time.monotonic(), found)
    for host, listing in zip(hosts, listings, strict=True):
        machine = host.facts.boot_id or host.name
        neighbours = [
            each
            for other, each in zip(hosts, listings, strict=True)
            if (other.facts.boot_id or other.name) == machine and each.namespace == listing.namespace
        ]
        is_here = machine == here and listing.namespace == own_namespace
        own = {each.agent for each in neighbours} | ({os.getpid()} if is_here else set())
        _add(found, machine, listing.processes, own)
    return ProcessSnapshot(time.monotonic(), found)


def busiest_programs(before: ProcessSnapshot, after: ProcessSnapshot) -> tuple[OtherProgram, ...]:
    """Return the programs that used most CPU time between two snapshots, the busiest first; one that ended is missing.

    A parent includes the time of its children that ended in between and that it waited for.
    """
    elapsed_s = after.at_s - before.at_s
    earlier_s = {key: each.cpu_s for key, each in before.processes.items()}
    keys = {(key.machine, key.pid): key for key in before.processes}
    for key, each in before.processes.items():
        if key not in after.processes:  # what it had used before is in the time of its parent now
            parent = keys.get((key.machine, each.parent))
            while parent is not None and parent not in after.processes:
                parent = keys.get((key.machine, before.processes[parent].parent))
            if parent is not None:
                earlier_s[parent] += each.cpu_s
    programs = [
        OtherProgram(name=clean(each.name), pid=each.pid, cores=used_s / elapsed_s)
        for key, each in after.processes.items()
        if (used_s := each.cpu_s - earlier_s.get(key, 0.0)) >= LEAST_CORES * elapsed_s
    ]
    return tuple(sorted(programs, key=lambda each: -each.cores)[:MOST])


def _add(
    found: dict[ProcessKey, SeenProcess], machine: str, processes: Iterable[SeenProcess], own: Collection[int]
) -> None:
    """Add the processes of a machine that do not descend from its own ones, and are no kernel threads."""
    by_pid = {each.pid: each for each in processes}
    excluded = {*own, *(each.pid for each in by_pid.values() if each.name == KERNEL_THREADS)}
    for each in by_pid.values():
        line, current = {each.pid}, each
        while current.parent in by_pid and current.parent not in line:
            current = by_pid[current.parent]
            line.add(current.pid)
        if line.isdisjoint(excluded):
            found[ProcessKey(machine, each.pid, each.start)] = each


def _processes_of_this_machine() -> list[SeenProcess]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error), process.oneshot():
            cpu_s = sum(process.cpu_times()[:4])  # its own, and that of children that ended
            found.append(SeenProcess(process.pid, process.ppid(), process.create_time(), process.name(), cpu_s))
    return found
