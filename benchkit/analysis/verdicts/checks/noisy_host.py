"""Something else ran on the host's CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.cpu_time import INTERRUPTS, CpuUsage, cores_busy, cores_spent, cpu_usage, machine_of
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

COUNTED_IN = 0.03
"""Cores' worth of time by which the trial's processes took more than their cores worked outside of interrupts: more than
any error of reading both. Their kernel then counts interrupts to whoever runs just then, as most are built
(CONFIG_IRQ_TIME_ACCOUNTING is off)."""
NO_IDLE = 0.02
"""Of a core: one that idles less has its interrupts while somebody runs."""
STEP_S = 0.01
"""In which kernels state the time that a core was idle, cut off (proc(5): USER_HZ). What lies between two looks is then off
by the difference of two errors that are even over a step, whose variance is a sixth of its square."""
SURE = 3
"""Standard deviations of that, over all cores together: what they seem to have done beyond it they have done."""


class _Group(NamedTuple):
    """CPUs of a machine that the trial's own processes may run on, directly or through one another."""

    machine: str
    cpus: frozenset[int]
    hosts: tuple[str, ...]
    """Of those processes: each sees all cores of the machine."""

    @property
    def named(self) -> str:
        """For people."""
        return f"CPU {', '.join(map(str, sorted(self.cpus)))} of host {self.hosts[0]}"


class _Look(NamedTuple):
    """What the cores of a group did, in cores' worth of time."""

    group: _Group
    busy: float
    interrupts: float
    """What the kernel did there for devices and networks."""
    interrupting: float
    """The part of it that came while somebody ran: on cores that did not idle."""
    own: float
    """What processes took that run nowhere else: the trial's, and those of benchkit's that are bound to these cores."""
    perhaps: float
    """What processes of benchkit's took that may have run here or on other cores."""
    known_to: float
    """By so much it may be off, for the steps of the counters."""

    @property
    def counts_in(self) -> bool:
        """Whether the kernel is seen to count interrupts to processes."""
        return self.own + self.interrupts - self.busy > max(COUNTED_IN, self.known_to)

    def foreign(self, *, counted_in: bool) -> float:
        """What others took, at least; `counted_in`: whether the kernel counts interrupts to processes.

        It then has those in the processes' time that came while they ran: all of a core's where it did not idle. Where it
        did, they may all have come meanwhile. Benchkit's agent may as well have run here as anywhere.
        """
        apart = self.interrupts - self.interrupting if counted_in else self.interrupts
        return self.busy - self.own - self.perhaps - apart


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """What the cores of the trial worked, less what its own processes took there.

    The cores' counters see what a process list in a namespace of its own cannot. Interrupts are mostly the trial's own
    packets, and nobody's noise. CPUs that only benchkit's agent may use are not the trial's.
    """
    processes = cpu_usage(evidence)
    if processes is None:
        return SkippedCheck(why="the CPU time of its own processes is not known")
    known = list(processes)
    if any(not each.cpus for each in known):
        return SkippedCheck(why="the CPUs of its own processes are not recorded")
    groups = _groups(evidence, known)
    looks = [look for group in groups if (look := _look(evidence, group, known)) is not None]
    counted_in = {look.group.machine for look in looks if look.counts_in}
    found = [
        (foreign, look.group, limit)
        for look in looks
        if (foreign := look.foreign(counted_in=look.group.machine in counted_in))
        > (limit := max(thresholds.foreign_cores, look.known_to))
    ]
    if not found:
        seen = {look.group for look in looks}
        unseen = [group.named for group in groups if group not in seen]
        return SkippedCheck(why=f"not watched: {'; '.join(unseen)}") if unseen else ()
    cores, group, limit = max(found, key=lambda each: each[0])
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{cores:.2f} cores' worth of CPU time on {group.named} went to others than the trial",
            threshold=f"above {limit:.2g} of a core",
            means="Something else took time and caches from what was measured.",
            advice="Look for it with top on the host, and run again without it.",
        )
    ]


CHECK = Check("noisy-host", "something else ran on the host's CPUs", of_trial=of_trial)


def _groups(evidence: Evidence, processes: Sequence[CpuUsage]) -> list[_Group]:
    """The CPUs of the trial's own processes, those together that a process may run on, or several through each other."""
    groups: list[_Group] = []
    for each in processes:
        if not each.bound:
            continue
        group = _Group(machine_of(evidence, each.host), frozenset(each.cpus), (each.host,))
        apart = []
        for other in groups:
            if other.machine == group.machine and other.cpus & group.cpus:
                hosts = tuple(dict.fromkeys((*other.hosts, *group.hosts)))
                group = _Group(group.machine, other.cpus | group.cpus, hosts)
            else:
                apart.append(other)
        groups = [*apart, group]
    return groups


def _look(evidence: Evidence, group: _Group, processes: Sequence[CpuUsage]) -> _Look | None:
    """What the CPUs of a group did; None where nobody watched them."""
    there = [each for each in processes if machine_of(evidence, each.host) == group.machine]
    own = sum(each.cores for each in there if group.cpus.issuperset(each.cpus))
    known = sum(each.cores for each in there if not group.cpus.isdisjoint(each.cpus))
    for host in group.hosts:
        busy, interrupts = cores_busy(evidence, host, group.cpus), cores_spent(evidence, host, group.cpus, INTERRUPTS)
        if busy is not None and interrupts is not None:
            full = [cpu for cpu in group.cpus if (cores_busy(evidence, host, (cpu,)) or 0.0) > 1 - NO_IDLE]
            return _Look(
                group=group,
                busy=busy,
                interrupts=interrupts,
                interrupting=cores_spent(evidence, host, full, INTERRUPTS) or 0.0,
                own=own,
                perhaps=known - own,
                known_to=SURE * STEP_S * math.sqrt(len(group.cpus) / 6) / evidence.window_s,
            )
    return None
