"""The host did not get its CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.cpu_time import STOLEN, cores_busy, cores_spent, quota_of
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

NOMINAL = re.compile(r"@ ([0-9.]+) ?GHz")
"""What many makers write behind a CPU's name: the rate that it keeps up."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Time that a hypervisor or a control group withheld, and clocks below their nominal rate, host by host."""
    found = [reason for host in evidence.hosts for reason in _of_host(evidence, host, thresholds)]
    unknown: dict[str, list[str]] = {}
    for host in evidence.hosts:
        for what in _unknown(evidence, host):
            unknown.setdefault(what, []).append(host)
    if found or not unknown:
        return found
    return SkippedCheck(why="not known: " + "; ".join(f"{what} of {', '.join(of)}" for what, of in unknown.items()))


CHECK = Check("throttled", "the host did not get its CPU", of_trial=of_trial)


def _of_host(evidence: Evidence, host: str, thresholds: Thresholds) -> Iterator[Finding]:
    cpus = _cpus(evidence, host)
    stolen = _stolen(evidence, host, cpus)
    if stolen is not None and stolen > thresholds.steal:
        yield Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"the hypervisor withheld {units.share(stolen)} of the CPU time of {host}",
            threshold=f"above {units.share(thresholds.steal)}",
            means="The machine did less than it can, by as much as its neighbours took.",
            advice="Use a machine of its own, or run again when its neighbours are quiet.",
        )
    waited = _withheld(evidence, host)
    if waited is not None and waited > thresholds.throttled:
        yield Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"a CPU quota withheld CPU time from {host} for {units.share(waited)} of the window",
            threshold=f"above {units.share(thresholds.throttled)}; quotas of the scenario are not counted",
            means="The host did what its quota let it, which the cell does not say.",
            advice="Take the quota off the host, and state one in the scenario (quota of a role) where it is meant.",
        )
    nominal, seen = _nominal(evidence, host), _clock(evidence, host, cpus)
    if nominal is not None and seen is not None and seen < thresholds.frequency * nominal:
        yield Finding(
            severity="suspect",
            metrics=LOAD,
            seen=f"host {host} ran at {seen / 1e9:.2f} GHz of its nominal {nominal / 1e9:.2f} GHz",
            threshold=f"below {units.share(thresholds.frequency)}",
            means="It was slowed down by heat, power or its governor.",
            advice="Set the governor `performance`, and see to cooling and power limits.",
        )


def _unknown(evidence: Evidence, host: str) -> Iterator[str]:
    """What nobody told of a host. A clock counts only where cores had work: an idle one may well go slower."""
    cpus = _cpus(evidence, host)
    if _stolen(evidence, host, cpus) is None:
        yield "stolen CPU time"
    if _withheld(evidence, host) is None:
        yield "the CPU time that its quota withheld"
    if _nominal(evidence, host) is None:
        yield "the nominal clock rate"
    elif _busy(evidence, host, cpus) and _clock(evidence, host, cpus) is None:
        yield "the clock rate under load"


def _cpus(evidence: Evidence, host: str) -> set[int]:
    """The CPUs of the host that the trial's processes may use."""
    services = {cpu for each in evidence.record.services if each.host == host for cpu in each.cpus}
    return services | {cpu for each in evidence.record.generators if each.host == host for cpu in each.cpus}


def _stolen(evidence: Evidence, host: str, cpus: set[int]) -> float | None:
    """The share of the time in which its cores had work that went to others of the machine."""
    stolen = cores_spent(evidence, host, cpus, STOLEN)
    return None if stolen is None else stolen / len(cpus)


def _withheld(evidence: Evidence, host: str) -> float | None:
    """Seconds a second that a quota withheld which is the host's own: none without one; None where it is not known.

    Those of the scenario hold in groups of their own, below the agent's or beside it, whose waiting is not in this.
    """
    series = evidence.telemetry.series("cgroup_throttled_s_total", host)
    if not series:
        return 0.0 if quota_of(evidence, host) is None else None
    rates = [each.rate(evidence.window_s) for each in series]
    return max((rate for rate in rates if rate is not None), default=None)


def _nominal(evidence: Evidence, host: str) -> float | None:
    """The clock rate in Hz that the maker of its CPUs states."""
    stated = NOMINAL.search(str(evidence.facts.get(host, {}).get("cpu_model") or ""))
    return None if stated is None else float(stated[1]) * 1e9


def _busy(evidence: Evidence, host: str, cpus: set[int]) -> set[int]:
    """Those of the cores that had work for most of the window."""
    return {cpu for cpu in cpus if (cores_busy(evidence, host, [cpu]) or 0.0) > 0.5}  # noqa: PLR2004 - most of it


def _clock(evidence: Evidence, host: str, cpus: set[int]) -> float | None:
    """The mean clock rate in Hz of its busy cores, at looks within the window."""
    busy = {str(cpu) for cpu in _busy(evidence, host, cpus)}
    series = [each for each in evidence.telemetry.series("cpu_frequency_hz", host) if each.instance in busy]
    seen = [value for each in series for value in each.in_window(evidence.window_s)]
    return sum(seen) / len(seen) if seen else None
