"""The load tool was the limit."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.cpu_time import capacity, cores_busy, generator_cores, quota_of
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.telemetry import generator_service
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import GeneratorRecord

MEANS = "The load tool was the limit, so its rate and its times are its own and not the server's."
ADVICE = "Give it more cores, threads or processes, add a load host, or lower the server's CPU."


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """The CPU of each generator against what it may use, that of its busiest thread, and that of its host.

    A thread counts where each connection has its own: in a tool that hands work to whichever thread is free, as Go does,
    one that is busy keeps nobody waiting.
    """
    generators = evidence.record.generators
    if any(not generator.cpus for generator in generators):
        return SkippedCheck(why="the CPUs of the load tool are not recorded")
    used = [use for generator in generators for use in _uses(evidence, generator)]
    hosts = [use for host in evidence.load_hosts for use in _host_uses(evidence, host)]
    share, what = max([*used, *hosts])
    if share >= thresholds.generator_cpu < 1:
        return [_reason(what, share, thresholds)]
    unwatched = [host for host in evidence.load_hosts if _busy(evidence, host) is None]
    return SkippedCheck(why=f"not watched: the cores of {', '.join(unwatched)}") if unwatched else ()


CHECK = Check("generator-saturated", "the load tool was the limit", of_trial=of_trial)


def _uses(evidence: Evidence, generator: GeneratorRecord) -> Iterator[tuple[float, str]]:
    """Shares of what a generator may use: as a process, and its busiest thread of one core."""
    tool = generator.argv[0].rpartition("/")[2]
    many = len(evidence.record.generators)
    name = f"the load tool ({tool}{f' {generator.number} of {many}' if many > 1 else ''}) on {generator.host}"
    most = capacity(len(generator.cpus), generator.threads, quota_of(evidence, generator.host))
    yield generator_cores(generator) / most, f"{name} took {{}} of the CPU that it may use"
    if generator.threads is None:
        return
    threads = evidence.telemetry.series("thread_cpu_s_total", generator.host, generator_service(generator.number))
    rates = [rate for each in threads if (rate := each.rate(evidence.window_s)) is not None]
    if rates:
        yield max(rates), f"a thread of {name} took {{}} of a core"


def _host_uses(evidence: Evidence, host: str) -> Iterator[tuple[float, str]]:
    """Shares of what all generators of a host may use together: of its cores, by whomever; of its quota, by themselves."""
    own = [generator for generator in evidence.record.generators if generator.host == host]
    busy = _busy(evidence, host)
    if busy is not None:
        yield busy, f"the cores of the load tool on {host} were busy for {{}} of the time"
    quota = quota_of(evidence, host)
    if quota is not None:
        yield sum(map(generator_cores, own)) / quota, f"the load tool took {{}} of the CPU quota of {host}"


def _busy(evidence: Evidence, host: str) -> float | None:
    """The share of the time for which the cores of the generators of a host were busy; None where they were not watched."""
    cpus = {cpu for each in evidence.record.generators if each.host == host for cpu in each.cpus}
    busy = cores_busy(evidence, host, cpus)
    return None if busy is None else min(busy / len(cpus), 1.0)


def _reason(what: str, share: float, thresholds: Thresholds) -> Finding:
    return Finding(
        severity="invalid",
        metrics=LOAD,
        seen=what.format(units.share(share)),
        threshold=f"from {units.share(thresholds.generator_cpu)} on",
        means=MEANS,
        advice=ADVICE,
    )
