"""Check generator-saturated: the load tool was the limit."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.cpu_time import INTERRUPTS, capacity, cores_busy, cores_spent, generator_cores, quota_of
from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import generator_service
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import GeneratorRecord

MEANS = "The load tool was the limit, so the rate and the latencies are the tool's and not the server's."
CROWDED = (
    "Others filled the cores of the load tool, so that it may have been the limit: two servers then look more alike than "
    "they are."
)
STOP_OTHERS = "Stop what else runs there, or wait until it has ended (--wait-idle)."
ADVICE = "Give it more cores, threads or processes, add a load host, or lower the server's CPU."


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the CPU use of each generator, of its busiest thread and of its host with the CPU available.

    A thread counts where it owns its connections. In a tool that hands work to any free thread, as Go programs do, one
    busy thread delays no request. Where others filled its cores that is a disturbance, which brings a ratio closer to
    one and cannot cause a difference.
    """
    use = generator_use(evidence)
    if use is None:
        return SkippedCheck(why="the CPUs of the load tool are not recorded")
    share, description = use
    if share >= thresholds.generator_cpu < 1:
        return [_finding(evidence, description, share, thresholds)]
    unwatched = [host for host in evidence.load_hosts if _busy_share(evidence, host) is None]
    return SkippedCheck(why=f"no telemetry for the cores of {', '.join(unwatched)}") if unwatched else ()


CHECK = Check("generator-saturated", "the load tool was the limit", of_trial=of_trial)


def generator_use(evidence: Evidence) -> tuple[float, str] | None:
    """Return the largest share of the available CPU that the load tool used, and a clause with `{}` for that share.

    None where the CPUs of a generator are not recorded, and where the load tool ran elsewhere.
    """
    generators = evidence.record.generators
    if not generators or any(not generator.cpus for generator in generators):
        return None
    processes = [use for generator in generators for use in _process_use(evidence, generator)]
    hosts = [use for host in evidence.load_hosts for use in _host_use(evidence, host)]
    return max([*processes, *hosts])


def is_crowded_out(evidence: Evidence, thresholds: Thresholds) -> bool:
    """Return True if others filled the cores of the load tool, which was not at its own limit with all its packets."""
    alone = [share for each in evidence.record.generators for share, _ in _process_use(evidence, each)]
    busy = {host: share for host in evidence.load_hosts if (share := _busy_share(evidence, host)) is not None}
    own = [_own_share(evidence, host) for host in busy]
    limit = thresholds.generator_cpu
    return max(busy.values(), default=0.0) >= limit > max([*alone, *own])


def _own_share(evidence: Evidence, host: str) -> float:
    """Return the share of the cores of a host's generators that these used, with the interrupts there."""
    generators = [each for each in evidence.record.generators if each.host == host]
    cpus = {cpu for each in generators for cpu in each.cpus}
    interrupts = cores_spent(evidence, host, cpus, INTERRUPTS) or 0.0
    return (sum(map(generator_cores, generators)) + interrupts) / len(cpus)


def _process_use(evidence: Evidence, generator: GeneratorRecord) -> Iterator[tuple[float, str]]:
    """Yield the shares of the available CPU that a generator used: as a process, and by its busiest thread."""
    tool = generator.argv[0].rpartition("/")[2]
    total = len(evidence.record.generators)
    name = f"the load tool ({tool}{f' {generator.number} of {total}' if total > 1 else ''}) on {generator.host}"
    available = capacity(len(generator.cpus), generator.threads, quota_of(evidence, generator.host))
    yield generator_cores(generator) / available, f"{name} used {{}} of the CPU available to it"
    if generator.threads is None:
        return
    threads = evidence.telemetry.series("thread_cpu_s_total", generator.host, generator_service(generator.number))
    rates = [rate for each in threads if (rate := each.rate(evidence.window_s)) is not None]
    if rates:
        yield max(rates), f"a thread of {name} used {{}} of a core"


def _host_use(evidence: Evidence, host: str) -> Iterator[tuple[float, str]]:
    """Yield the shares of a load host that are in use: of its cores by anyone, of its quota by the generators.

    A server of this machine that was there already may run on the cores of the load tool: nothing binds it.
    """
    generators = [generator for generator in evidence.record.generators if generator.host == host]
    busy = None if evidence.shares_unwatched_server else _busy_share(evidence, host)
    if busy is not None:
        yield busy, f"the cores of the load tool on {host} were busy for {{}} of the time"
    quota = quota_of(evidence, host)
    if quota is not None:
        yield sum(map(generator_cores, generators)) / quota, f"the load tool used {{}} of the CPU quota of {host}"


def _busy_share(evidence: Evidence, host: str) -> float | None:
    """Return the share of time that the cores of a host's generators were busy; None without telemetry."""
    cpus = {cpu for each in evidence.record.generators if each.host == host for cpu in each.cpus}
    busy = cores_busy(evidence, host, cpus)
    return None if busy is None else min(busy / len(cpus), 1.0)


def _finding(evidence: Evidence, description: str, share: float, thresholds: Thresholds) -> Finding:
    is_crowded = is_crowded_out(evidence, thresholds)
    return Finding(
        severity=evidence.disturbance if is_crowded else "invalid",
        metrics=LOAD,
        seen=description.format(units.share(share)),
        threshold=f"limit: {units.share(thresholds.generator_cpu)}",
        means=CROWDED if is_crowded else MEANS,
        advice=STOP_OTHERS if is_crowded else ADVICE,
    )
