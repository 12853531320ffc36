"""Programs outside a run that use CPU time of its hosts, found by listing all processes twice.

A lab host sees its own processes only, though other programs share its cores. So for a lab, the controller lists the
processes of this machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.agent.operations import SeenProcess
from benchkit.agent.processes import ProcessTable, seen_processes
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.cpu_affinity import pid_namespace, this_machine
from benchkit.models.trial import OtherProgram
from benchkit.safe_text import clean

MOST = 3
"""Most programs that are named."""
LEAST_CORES = 0.02
"""CPU use from which a program is named, in cores."""
KERNEL_THREADS = "kthreadd"
"""Parent of all kernel threads; these mostly process packets of the load."""
LOOK_S = 1.0
"""Time between two snapshots: a named program has used at least 20 ms of CPU time in it."""


ProcessKey = tuple[str, int, float]
"""Unique identity of a process: machine, pid and start."""


@dataclass(frozen=True)
class ProcessSnapshot:
    """The processes on all machines of a run that do not belong to it, at one time."""

    at_s: float
    processes: Mapping[ProcessKey, SeenProcess]


def take_snapshot(hosts: Hosts) -> ProcessSnapshot:
    """Return the processes on the machines of these hosts that do not belong to the run. Raises HostError."""
    listings = run_on_hosts(list(hosts), lambda host: host.call(ProcessTable.list_all))
    here, own_namespace = this_machine(), pid_namespace("self")
    found: dict[ProcessKey, SeenProcess] = {}
    if hosts.inventory.lab is not None:
        hidden = {each.namespace for each in listings} - {own_namespace}
        visible = [each for each in seen_processes() if pid_namespace(each.pid) not in hidden]
        agents = {each.agent for each in listings if each.namespace not in hidden}
        _add(found, str(here), visible, {os.getpid(), *agents})
        return ProcessSnapshot(time.monotonic(), found)
    machines = [host.facts.boot_id or host.name for host in hosts]
    places = [(machine, listing.namespace) for machine, listing in zip(machines, listings, strict=True)]
    for place, listing in zip(places, listings, strict=True):
        own = {each.agent for other, each in zip(places, listings, strict=True) if other == place}
        own |= {os.getpid()} if place == (here, own_namespace) else set()
        _add(found, place[0], listing.processes, own)
    return ProcessSnapshot(time.monotonic(), found)


def busiest_programs(before: ProcessSnapshot, after: ProcessSnapshot) -> tuple[OtherProgram, ...]:
    """Return the programs that used most CPU time between two snapshots, the busiest first; ended ones are missing."""
    elapsed_s = after.at_s - before.at_s
    used_s = {
        key: each.cpu_s - (before.processes[key].cpu_s if key in before.processes else 0.0)
        for key, each in after.processes.items()
    }
    programs = [
        OtherProgram(name=clean(each.name), pid=each.pid, cores=used_s[key] / elapsed_s)
        for key, each in after.processes.items()
        if used_s[key] >= LEAST_CORES * elapsed_s
    ]
    return tuple(sorted(programs, key=lambda each: -each.cores)[:MOST])


def busy_programs(hosts: Hosts, before: ProcessSnapshot, limit: float) -> tuple[OtherProgram, ...]:
    """Return the programs that have used more than `limit` cores since a snapshot at least `LOOK_S` ago.

    Raises HostError.
    """
    time.sleep(max(0.0, before.at_s + LOOK_S - time.monotonic()))
    return tuple(each for each in busiest_programs(before, take_snapshot(hosts)) if each.cores > limit)


def wait_until_idle(hosts: Hosts, seconds: float, limit: float, report: Callable[[str], None]) -> None:
    """Wait up to `seconds` until no other program uses more than `limit` cores; `report` the busy programs.

    Raises HostError.
    """
    deadline_s, reported = time.monotonic() + seconds, ""
    while busy := busy_programs(hosts, take_snapshot(hosts), limit):
        if time.monotonic() >= deadline_s:
            report(f"{describe_programs(busy)} still, after {seconds:g} s of waiting")
            return
        names = ", ".join(each.title for each in busy)
        if names != reported:
            report(f"waiting until the hosts are idle: {describe_programs(busy)}")
            reported = names


def describe_programs(programs: Sequence[OtherProgram]) -> str:
    """Return the CPU time of programs as a clause: `another program, python3 (pid 12290), uses 0.90 of a core`."""
    first, *others = programs
    more = (f"; {each.title} uses {units.cores(each.cores)}" for each in others)
    return f"another program, {first.title}, uses {units.cores(first.cores)}" + "".join(more)


def _add(
    found: dict[ProcessKey, SeenProcess], machine: str, processes: Iterable[SeenProcess], own: Collection[int]
) -> None:
    by_pid = {each.pid: each for each in processes}
    excluded = {*own, *(each.pid for each in by_pid.values() if each.name == KERNEL_THREADS)}
    for each in by_pid.values():
        line, current = {each.pid}, each
        while current.parent in by_pid and current.parent not in line:
            current = by_pid[current.parent]
            line.add(current.pid)
        if line.isdisjoint(excluded):
            found[machine, each.pid, each.start] = each
