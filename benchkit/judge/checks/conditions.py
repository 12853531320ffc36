"""Checks of conditions that a trial must meet, without a threshold: which processes ran, where, and what they spoke."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.cpu_time import machine_of
from benchkit.judge.evidence import Evidence
from benchkit.models.protocol import Negotiated
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord

_OBSERVERS = {
    "profile": ("profiler", "uses CPU time itself", "profiled"),
    "trace": ("tracer", "uses CPU time at each system call", "traced"),
}
"""By kind of trial: the observer of its servers, how it costs time, and the adjective for its servers."""


def _observer(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Mark profiled and traced trials, whose figures are shown but never mixed with measured ones."""
    kind = evidence.record.kind
    if kind not in _OBSERVERS:
        return ()
    name, cost, observed = _OBSERVERS[kind]
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"the trial ran under a {name}",
            threshold=f"limit: no {name}",
            means=f"A {name} {cost}: the figures hold for a {observed} server only.",
            advice=f"Read its {kind}, and take figures from the measured trials.",
        )
    ]


OBSERVED = Check("observed", "the profiler was on", of_trial=_observer)


def _changed_processes(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the processes of each service just before and just after the window; a reused pid is another process.

    Additional processes do not matter: a server that forks for each request has some that answer the last ones.
    """
    services = evidence.record.services
    if any(not service.pids_before or not service.pids_after for service in services):
        return SkippedCheck(why="the servers' processes were not listed")
    changes = []
    for service in services:
        ended = set(service.pids_before) - set(service.pids_after)
        started = set(service.pids_after) - set(service.pids_before)
        if ended:
            total = units.counted(len(service.pids_before), "process", "processes")
            changes.append(f"service {service.name}: {len(ended)} of {total} ended, {len(started)} started")
    if not changes:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="; ".join(changes),
            threshold="limit: none may end",
            means="For part of the window, another server or one process fewer was measured.",
            advice="Read the server's log in the trial's raw files for the reason.",
        )
    ]


SERVICE_RESTARTED = Check(
    "service-restarted", "the process under test changed", of_trial=_changed_processes, reads="servers"
)


def _shared_cpus(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the affinity masks of servers with those of load tools and of the controller on the same machine.

    Load tool and controller may share CPUs: the controller waits during the load, and `generator-saturated` includes
    what it uses.
    """
    services, generators, controller = evidence.record.services, evidence.record.generators, evidence.controller
    others = [("the load tool", machine_of(evidence, each.host), each.cpus) for each in generators]
    if controller is not None and controller.machine is not None:
        others.append(("benchkit itself", controller.machine, controller.cpus))
    if not all((*(each.cpus for each in services), *(cpus for _, _, cpus in others))):
        return SkippedCheck(why="the CPUs of its processes are not recorded")
    shared: dict[str, set[int]] = {}
    for service in services:
        for name, machine, cpus in others:
            common = set(cpus) & set(service.cpus)
            if common and machine == machine_of(evidence, service.host):
                shared.setdefault(name, set()).update(common)
    if not shared:
        return ()
    numbers = ", ".join(map(str, sorted({cpu for cpus in shared.values() for cpu in cpus})))
    return [
        Finding(
            severity="suspect",
            metrics=ALL,
            seen=f"the server and {' and '.join(shared)} may run on the same CPU: {numbers}",
            threshold="limit: no common CPU",
            means="Each can take time from the other, so the rate measures both together.",
            advice="Use a machine for each, or give the roles CPUs of their own.",
        )
    ]


SHARED_CPUS = Check(
    "shared-cpus", "server, load tool or controller may run on the same CPU", of_trial=_shared_cpus, reads="hosts"
)


def _negotiated_protocol(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the protocol that the probes and the load tool negotiated with that of the scenario.

    A server without HTTP/2 is measured over HTTP/1.1 without any error.
    """
    record = evidence.record
    by_probe = [probe.negotiated for probe in record.probes]
    by_tool = [None if generator.result is None else generator.result.negotiated for generator in record.generators]
    if not any(by_probe):
        return () if record.protocol == "http1" else SkippedCheck(why="the probe recorded no protocol")
    seen = [
        f"{side} negotiated {', '.join(differences)}"
        for side, stated in (("the probe", by_probe), (record.load.tool, by_tool))
        if (differences := dict.fromkeys(text for each in stated if each for text in _differences(record, each)))
    ]
    if not seen:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="; ".join(seen),
            threshold="limit: the same",
            means="The measured protocol is not the one that the cell names.",
            advice="Configure the server to offer the protocol that the scenario names.",
        )
    ]


PROTOCOL_MISMATCH = Check(
    "protocol-mismatch", "the measured protocol is not the one asked for", of_trial=_negotiated_protocol
)


def _differences(record: TrialRecord, agreed: Negotiated) -> Iterator[str]:
    if agreed.protocol is not None and agreed.protocol != record.protocol:
        yield f"{agreed.protocol}, not {record.protocol}"
    tls = record.tls
    if tls is None:
        return
    if agreed.tls_version is not None and agreed.tls_version != tls.version:
        yield f"TLS {agreed.tls_version}, not {tls.version}"
    if agreed.cipher is not None and tls.ciphers is not None and agreed.cipher not in tls.ciphers.split(":"):
        yield f"the cipher suite {agreed.cipher}, not {tls.ciphers.replace(':', ' or ')}"
    if agreed.key is not None and tls.certificate is None and agreed.key != tls.key:
        yield f"a key of the kind {agreed.key}, not {tls.key}"
