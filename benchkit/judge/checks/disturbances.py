"""Checks of disturbances: throttled (CPU withheld), noisy-host (other programs), busy-neighbour (idle servers)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchkit import units
from benchkit.judge.check import ALL, LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.cpu_time import (
    INTERRUPTS,
    CpuUsage,
    cores_busy,
    cores_spent,
    cpu_usage,
    host_stolen_share,
    machine_of,
    quota_withheld,
)
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.sliced_blocks import balances, neighbour_share, sliced_trials
from benchkit.models.thresholds import Thresholds
from benchkit.stats.samples import log_left

WITHHELD_ADVICE = "Use a dedicated machine without a quota, or run again when the others are quiet."


def _withheld_time(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Look for CPU time that a hypervisor or a quota withheld from a host; `_unequal_time` judges sliced blocks."""
    findings: list[Finding] = []
    unknown: list[str] = []
    for host in evidence.hosts:
        stolen, withheld = host_stolen_share(evidence, host), quota_withheld(evidence, host)
        for share, limit, who, of in (
            (stolen, thresholds.steal, "the hypervisor", "of the CPU time"),
            (withheld, thresholds.throttled, "a CPU quota that the scenario does not state", "of the window"),
        ):
            if share is None:
                unknown.append(f"CPU time that {who} withheld from {host}")
            elif share > limit and not evidence.record.slices:
                findings.append(
                    Finding(
                        severity=evidence.disturbance,
                        metrics=ALL,
                        seen=f"{who} withheld CPU time from {host}: {units.share(share)} {of}",
                        threshold=f"limit: {units.share(limit)}",
                        means="The host did less work than it can.",
                        advice=WITHHELD_ADVICE,
                    )
                )
    return findings if findings or not unknown else SkippedCheck(why=f"unknown: {'; '.join(unknown)}")


def _unequal_time(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Judge the trials of sliced blocks by the differences in CPU time between the cells of a block."""
    results: dict[str, list[Finding]] = {}
    for column, who, limit in (
        ("stolen_share", "the hypervisor", thresholds.steal),
        ("withheld_share", "a CPU quota of the host", thresholds.throttled),
    ):
        for each in balances(evidence.trials, column, log_left):
            if each.value > limit or each.inequality > thresholds.unequal:
                seen = f"{who} withheld {units.share(each.value)} of the CPU time"
                finding = each.finding(seen, f"{units.share(limit)} withheld", WITHHELD_ADVICE, thresholds)
                results.setdefault(each.trial_id, []).append(finding)
    return results


THROTTLED = Check(
    "throttled", "the host did not get its CPU", of_trial=_withheld_time, reads="hosts", of_run=_unequal_time
)

CHARGED_FROM = 0.03
"""Cores by which processes must exceed the busy time without interrupts to show that the kernel charges interrupts to
processes. Most kernels do (CONFIG_IRQ_TIME_ACCOUNTING is off). Reading errors are smaller."""
ALWAYS_BUSY = 0.02
"""Idle share of a core below which its interrupts come while a process runs."""
STEP_S = 0.01
"""Resolution of idle times, which kernels truncate (proc(5): USER_HZ). The error of the time between two readings is
then the difference of two errors that are uniform over a step. Its variance is a sixth of the square of a step."""
Z = 3
"""Standard deviations of that error, over all cores together, that count as real work."""
NOISY_ADVICE = "Stop it, or wait until it has ended (--wait-idle), and run again. A program that is not named had ended, or is hidden."


class _Group(NamedTuple):
    """CPUs of a machine that the trial's processes may run on, joined where processes share CPUs."""

    machine: str
    cpus: frozenset[int]
    hosts: tuple[str, ...]
    """Hosts of those processes: each sees all cores of the machine."""

    @property
    def title(self) -> str:
        """Its CPUs and their host, for a message."""
        return f"CPU {', '.join(map(str, sorted(self.cpus)))} of host {self.hosts[0]}"


class _GroupUsage(NamedTuple):
    """CPU usage of a group, in cores."""

    group: _Group
    busy: float
    interrupts: float
    """Kernel time for devices and networks."""
    interrupts_while_busy: float
    """The part of it that came while a process ran: on cores that were never idle."""
    own: float
    """Usage by processes bound to these CPUs: the trial's, and benchkit's."""
    shared: float
    """Usage by benchkit's processes that may have run here or on other cores."""
    error: float
    """Error of the figures due to the resolution of the counters."""

    @property
    def charges_interrupts(self) -> bool:
        """True if the figures show that the kernel charges interrupts to processes."""
        return self.own + self.interrupts - self.busy > max(CHARGED_FROM, self.error)

    def foreign(self, *, charges_interrupts: bool) -> float:
        """Return the least usage by other processes; `charges_interrupts` is a property of the kernel.

        Such a kernel adds an interrupt to the time of the process that it interrupts. On a core that was never idle
        these are all interrupts, on others an unknown part. The agent of benchkit may have run here or elsewhere.
        """
        separate = self.interrupts - self.interrupts_while_busy if charges_interrupts else self.interrupts
        return self.busy - self.own - self.shared - separate


def _foreign_work(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the busy time of the trial's cores with the CPU time of its own processes there.

    The cores' counters include processes that no process list shows within a namespace. Interrupts are mostly of the
    trial's own packets, and no noise. CPUs that only benchkit's agent may use do not belong to the trial. Sliced blocks
    are judged by `_unequal_foreign_work`.
    """
    processes = _processes(evidence)
    if isinstance(processes, SkippedCheck):
        return processes
    groups = _groups(evidence, processes)
    foreign = _foreign_cores(evidence, groups, processes)
    noisy = [
        (cores, usage.group, limit)
        for cores, usage in foreign
        if cores > (limit := max(thresholds.foreign_cores, usage.error))
    ]
    if not noisy:
        unknown = [group.title for group in groups if group not in {usage.group for _, usage in foreign}]
        return SkippedCheck(why=f"no telemetry for {'; '.join(unknown)}") if unknown else ()
    if evidence.record.slices:
        return ()
    cores, group, limit = max(noisy, key=lambda each: each[0])
    return [
        Finding(
            severity=evidence.disturbance,
            metrics=ALL,
            seen=f"processes outside the trial used {cores:.2f} cores of CPU time on {group.title}"
            + "".join(f"; {_busiest(each.title, each.cores)}" for each in evidence.record.other_programs[:1]),
            threshold=f"limit: {limit:.2g} cores",
            means="Something else took CPU time and caches from the measured processes.",
            advice=NOISY_ADVICE,
        )
    ]


def _unequal_foreign_work(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Judge the trials of sliced blocks by the differences in other programs' CPU use between the cells of a block."""
    named = evidence.trials[["trial_id", "other_program", "other_program_cores"]].dropna()
    programs = {
        str(trial_id): f" ({_busiest(str(program), float(cores))})"
        for trial_id, program, cores in named.itertuples(index=False)
    }
    limit = f"{units.share(thresholds.foreign_cores)} used"
    return {
        each.trial_id: [
            each.finding(
                f"processes outside the trial used {units.share(each.value)} of the CPU time of its cores"
                f"{programs.get(each.trial_id, '')}",
                limit,
                NOISY_ADVICE,
                thresholds,
            )
        ]
        for each in balances(evidence.trials, "foreign_share", log_left)
        if each.value > thresholds.foreign_cores or each.inequality > thresholds.unequal
    }


NOISY_HOST = Check(
    "noisy-host",
    "something else ran on the host's CPUs",
    of_trial=_foreign_work,
    reads="hosts",
    of_run=_unequal_foreign_work,
)


def _neighbour_evidence(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Skip a trial of a sliced block without the evidence that `_neighbour_work` compares."""
    if evidence.record.slices and neighbour_share(evidence.record) is None:
        return SkippedCheck(why="the CPU time of the block's other servers is unknown")
    return ()


def _neighbour_work(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the CPU time that servers without load used in the slices of each cell of a block.

    Garbage collection, timers and background threads of one server take CPU time from the one under load. Random order
    does not cancel this, so the interval of a ratio includes it (`benchkit.comparison.ratios`). If all cells take as
    much from each other, their ratio does not change. Under a quota every server finishes its last requests in the next
    slice.
    """
    limit = thresholds.neighbour_cpu
    trials = sliced_trials(evidence.trials)
    results: dict[str, CheckResult] = {}
    for trial_id, share in trials[["trial_id", "neighbour_share"]].dropna().itertuples(index=False):
        if share > limit:
            finding = Finding(
                severity="suspect",
                metrics=LOAD,
                seen="servers of the block's other cells, which had no load, used "
                f"{units.share(share)} of the CPU time of this cell's servers in its slices",
                threshold=f"limit: {units.share(limit)}",
                means="The cells of the block took CPU time from each other: intervals of ratios include what was unequal.",
                advice="Use design: blocks, which runs one cell at a time, or longer slices (slice_s).",
            )
            results[str(trial_id)] = [finding]
    return results


BUSY_NEIGHBOUR = Check(
    "busy-neighbour",
    "a server without load worked in the slices of another",
    of_trial=_neighbour_evidence,
    of_run=_neighbour_work,
)


def foreign_share(evidence: Evidence) -> float | None:
    """Return the share of the cores' CPU time that other programs used, of the worst group; None if unknown."""
    processes = _processes(evidence)
    if isinstance(processes, SkippedCheck):
        return None
    foreign = _foreign_cores(evidence, _groups(evidence, processes), processes)
    return max((max(0.0, cores) / len(usage.group.cpus) for cores, usage in foreign), default=None)


def _busiest(program: str, cores: float) -> str:
    return f"the busiest of them was {program} with {units.cores(cores)}"


def _processes(evidence: Evidence) -> Sequence[CpuUsage] | SkippedCheck:
    """Return the processes of the trial and of benchkit; skip where those of a server or their CPUs are unknown."""
    if evidence.shares_unwatched_server:
        server = " and ".join(evidence.record.external)
        return SkippedCheck(
            why=f"{server} is external and on this machine: its CPU time cannot be separated from other programs'"
        )
    usages = cpu_usage(evidence)
    if usages is None:
        return SkippedCheck(why="the CPU time of its own processes is unknown")
    if any(not each.cpus for each in usages):
        return SkippedCheck(why="the CPUs of its own processes are not recorded")
    return usages


def _foreign_cores(
    evidence: Evidence, groups: Sequence[_Group], processes: Sequence[CpuUsage]
) -> Sequence[tuple[float, _GroupUsage]]:
    """Return, for each group with telemetry, the cores that processes outside of the trial used, and its usage."""
    usages = [usage for group in groups for usage in _group_usage(evidence, group, processes)]
    charging = {usage.group.machine for usage in usages if usage.charges_interrupts}
    return [(usage.foreign(charges_interrupts=usage.group.machine in charging), usage) for usage in usages]


def _groups(evidence: Evidence, processes: Sequence[CpuUsage]) -> list[_Group]:
    """Group the CPUs of bound processes: CPUs that one process may use, and groups that share a CPU, are joined."""
    groups: list[_Group] = []
    for each in processes:
        if not each.bound:
            continue
        group = _Group(machine_of(evidence, each.host), frozenset(each.cpus), (each.host,))
        disjoint = []
        for other in groups:
            if other.machine == group.machine and other.cpus & group.cpus:
                hosts = tuple(dict.fromkeys((*other.hosts, *group.hosts)))
                group = _Group(group.machine, other.cpus | group.cpus, hosts)
            else:
                disjoint.append(other)
        groups = [*disjoint, group]
    return groups


def _group_usage(evidence: Evidence, group: _Group, processes: Sequence[CpuUsage]) -> Iterator[_GroupUsage]:
    """Yield the usage of a group, by the first of its hosts with telemetry of its cores."""
    of_machine = [each for each in processes if machine_of(evidence, each.host) == group.machine]
    own = sum(each.cores for each in of_machine if group.cpus.issuperset(each.cpus))
    possible = sum(each.cores for each in of_machine if not group.cpus.isdisjoint(each.cpus))
    pieces = max(1, len(evidence.record.slices))  # each has two readings
    for host in group.hosts:
        busy, interrupts = cores_busy(evidence, host, group.cpus), cores_spent(evidence, host, group.cpus, INTERRUPTS)
        if busy is not None and interrupts is not None:
            full = [cpu for cpu in group.cpus if (cores_busy(evidence, host, (cpu,)) or 0.0) > 1 - ALWAYS_BUSY]
            yield _GroupUsage(
                group=group,
                busy=busy,
                interrupts=interrupts,
                interrupts_while_busy=cores_spent(evidence, host, full, INTERRUPTS) or 0.0,
                own=own,
                shared=possible - own,
                error=Z * STEP_S * math.sqrt(len(group.cpus) * pieces / 6) / evidence.window_s,
            )
            return
