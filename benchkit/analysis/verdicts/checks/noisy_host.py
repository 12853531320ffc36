"""Something else ran on the host's CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.analysis.verdicts.check import ALL, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.cpu import INTERRUPTS, Taken, cores_busy, cores_spent, machine_of, taken
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """What the cores of the trial worked, less what its own processes took there.

    The cores' counters see what a process list in a namespace of its own cannot. Interrupts are left out: they are mostly
    the trial's own packets. A kernel that counts them to whoever runs just then (without CONFIG_IRQ_TIME_ACCOUNTING) has
    them in the processes' time: there others are noticed from where they take more than the interrupts do.
    """
    processes = taken(evidence)
    if processes is None:
        return Unchecked(why="the CPU time of its own processes is not known")
    known = list(processes)
    if any(not each.cpus for each in known):
        return Unchecked(why="the CPUs of its own processes are not recorded")
    looked = [(cores, group) for group in _groups(evidence, known) if (cores := _foreign(evidence, group)) is not None]
    if not looked:
        return Unchecked(why="the cores of its hosts were not watched")
    cores, group = max(looked, key=lambda each: each[0])
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


def _foreign(evidence: Evidence, group: Sequence[Taken]) -> float | None:
    """Cores' worth of time on the CPUs of these processes that none of them took."""
    cpus = {cpu for each in group for cpu in each.cpus}
    for host in dict.fromkeys(each.host for each in group):  # each sees all cores of the machine
        busy, interrupts = cores_busy(evidence, host, cpus), cores_spent(evidence, host, cpus, INTERRUPTS)
        if busy is not None and interrupts is not None:
            return busy - interrupts - sum(each.cores for each in group)
    return None
