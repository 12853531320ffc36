"""The host did not get its CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, LOAD, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.cpu import STOLEN, cores_busy, cores_spent
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds

NOMINAL = re.compile(r"@ ([0-9.]+) ?GHz")
"""What many makers write behind a CPU's name: the rate that it keeps up."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """Time that a hypervisor or a control group withheld, and clocks below their nominal rate, host by host."""
    found = [reason for host in evidence.hosts for reason in _of_host(evidence, host, thresholds)]
    if found or all(evidence.watched.instants(host) for host in evidence.hosts):
        return found
    return Unchecked(why="not all hosts were watched")


CHECK = Check("throttled", "the host did not get its CPU", of_trial=of_trial)


def _of_host(evidence: Evidence, host: str, thresholds: Thresholds) -> Iterator[Reason]:
    cpus = _cpus(evidence, host)
    stolen = _stolen(evidence, host, cpus)
    if stolen is not None and stolen > thresholds.steal:
        yield Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"the hypervisor withheld {units.share(stolen)} of the CPU time of {host}",
            threshold=f"above {units.share(thresholds.steal)}",
            means="The machine did less than it can, by as much as its neighbours took.",
            advice="Use a machine of its own, or run again when its neighbours are quiet.",
        )
    waited = _withheld(evidence, host)
    if waited > thresholds.throttled:
        yield Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"a CPU quota withheld CPU time from {host} for {units.share(waited)} of the window",
            threshold=f"above {units.share(thresholds.throttled)}; quotas of the scenario are not counted",
            means="The host did what its quota let it, which the cell does not say.",
            advice="Take the quota off the host, and state one in the scenario (quota of a role) where it is meant.",
        )
    slow = _slow(evidence, host, cpus)
    if slow is not None and slow[0] < thresholds.frequency * slow[1]:
        yield Reason(
            severity="suspect",
            metrics=LOAD,
            seen=f"host {host} ran at {slow[0] / 1e9:.2f} GHz of its nominal {slow[1] / 1e9:.2f} GHz",
            threshold=f"below {units.share(thresholds.frequency)}",
            means="It was slowed down by heat, power or its governor.",
            advice="Set the governor `performance`, and see to cooling and power limits.",
        )


def _cpus(evidence: Evidence, host: str) -> set[int]:
    """The CPUs of the host that the trial's processes may use."""
    services = {cpu for each in evidence.record.services if each.host == host for cpu in each.cpus}
    return services | {cpu for each in evidence.record.generators if each.host == host for cpu in each.cpus}


def _stolen(evidence: Evidence, host: str, cpus: set[int]) -> float | None:
    """The share of the time in which its cores had work that went to others of the machine."""
    stolen = cores_spent(evidence, host, cpus, STOLEN)
    return None if stolen is None else stolen / len(cpus)


def _withheld(evidence: Evidence, host: str) -> float:
    """Seconds a second that a quota withheld which is the host's own.

    Those of the scenario hold in groups of their own, below the agent's or beside it, whose waiting is not in this.
    """
    series = evidence.watched.series("cgroup_throttled_s_total", host)
    rates = [each.rate(evidence.window_s) for each in series]
    return max((rate for rate in rates if rate is not None), default=0.0)


def _slow(evidence: Evidence, host: str, cpus: set[int]) -> tuple[float, float] | None:
    """(clock rate of its busy cores, nominal rate) in Hz; None where one of them is not known."""
    nominal = NOMINAL.search(str(evidence.facts.get(host, {}).get("cpu_model") or ""))
    if nominal is None:
        return None
    busy = {cpu for cpu in cpus if (cores_busy(evidence, host, [cpu]) or 0.0) > 0.5}  # noqa: PLR2004 - an idle core may well clock down
    seen = [
        float(value)
        for each in evidence.watched.series("cpu_frequency_hz", host)
        if each.instance in {str(cpu) for cpu in busy}
        for value in each.values
    ]
    return (sum(seen) / len(seen), float(nominal[1]) * 1e9) if seen else None
