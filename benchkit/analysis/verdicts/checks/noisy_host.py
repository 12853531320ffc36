"""Something else ran on the host's CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchkit.analysis.verdicts.check import ALL, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.cpu import INTERRUPTS, Taken, cores_busy, cores_spent, machine_of, taken
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds

COUNTED_IN = 0.03
"""Cores' worth of time by which the trial's processes took more than their cores worked outside of interrupts: more than
any error of reading both. Their kernel then counts interrupts to whoever runs just then, as most are built
(CONFIG_IRQ_TIME_ACCOUNTING is off)."""
NO_IDLE = 0.02
"""Of a core: one that idles less has its interrupts while somebody runs."""


class _Look(NamedTuple):
    """What the cores of some processes did, in cores' worth of time."""

    group: Sequence[Taken]
    machine: str
    cores: int
    busy: float
    interrupts: float

    @property
    def own(self) -> float:
        """What the trial's processes took."""
        return sum(each.cores for each in self.group)

    def foreign(self, *, counted_in: bool) -> float:
        """What others took, at least; `counted_in`: whether the kernel counts interrupts to processes.

        It then has those in the processes' time that came while they ran: all of them where cores do not idle. Where they
        do, interrupts may all have come meanwhile.
        """
        full = self.busy > self.cores * (1 - NO_IDLE)
        return self.busy - self.own - (0.0 if counted_in and full else self.interrupts)


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """What the cores of the trial worked, less what its own processes took there.

    The cores' counters see what a process list in a namespace of its own cannot. Interrupts are mostly the trial's own
    packets, and nobody's noise.
    """
    processes = taken(evidence)
    if processes is None:
        return Unchecked(why="the CPU time of its own processes is not known")
    known = list(processes)
    if any(not each.cpus for each in known):
        return Unchecked(why="the CPUs of its own processes are not recorded")
    looked = [look for group in _groups(evidence, known) if (look := _look(evidence, group)) is not None]
    if not looked:
        return Unchecked(why="the cores of its hosts were not watched")
    counted_in = {look.machine for look in looked if look.foreign(counted_in=False) < -COUNTED_IN}
    cores, group = max(
        ((look.foreign(counted_in=look.machine in counted_in), look.group) for look in looked), key=lambda each: each[0]
    )
    if cores <= thresholds.foreign_cores:
        return ()
    named = ", ".join(map(str, sorted({cpu for each in group for cpu in each.cpus})))
    return [
        Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"{cores:.2f} cores' worth of CPU time on CPU {named} of host {group[0].host} went to others than the trial",
            threshold=f"above {thresholds.foreign_cores:g} of a core",
            means="Something else took time and caches from what was measured.",
            advice="Look for it with top on the host, and run again without it.",
        )
    ]


CHECK = Check("noisy-host", "something else ran on the host's CPUs", of_trial=of_trial)


def _groups(evidence: Evidence, processes: Sequence[Taken]) -> list[list[Taken]]:
    """Processes that may run on common CPUs of a machine, directly or through others."""
    groups: list[tuple[str, set[int], list[Taken]]] = []
    for each in processes:
        machine, cpus, members = machine_of(evidence, each.host), set(each.cpus), [each]
        apart = []
        for other in groups:
            if other[0] == machine and other[1] & cpus:
                cpus |= other[1]
                members = [*other[2], *members]
            else:
                apart.append(other)
        groups = [*apart, (machine, cpus, members)]
    return [members for _, _, members in groups]


def _look(evidence: Evidence, group: Sequence[Taken]) -> _Look | None:
    """What the CPUs of these processes did; None where nobody watched them."""
    cpus = {cpu for each in group for cpu in each.cpus}
    for host in dict.fromkeys(each.host for each in group):  # each sees all cores of the machine
        busy, interrupts = cores_busy(evidence, host, cpus), cores_spent(evidence, host, cpus, INTERRUPTS)
        if busy is not None and interrupts is not None:
            return _Look(group, machine_of(evidence, host), len(cpus), busy, interrupts)
    return None
