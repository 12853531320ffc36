"""Check shared-cpus: server, load tool or controller may run on the same CPU."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.cpu_time import machine_of
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the affinity masks of servers with those of load tools and of the controller on the same machine.

    Load tool and controller may share CPUs: the controller waits during the load, and the CPU use of the load host's
    cores includes its own (`generator-saturated`).
    """
    servers, others = dict(_servers(evidence)), {**dict(_generators(evidence)), **dict(_controller(evidence))}
    if not all((*servers.values(), *others.values())):
        return SkippedCheck(why="the CPUs of its processes are not recorded")
    shared: dict[str, set[int]] = {}
    for (machine, _), cpus in servers.items():
        for (other_machine, name), other_cpus in others.items():
            if machine == other_machine and cpus & other_cpus:
                shared.setdefault(name, set()).update(cpus & other_cpus)
    if not shared:
        return ()
    numbers = ", ".join(map(str, sorted({cpu for cpus in shared.values() for cpu in cpus})))
    return [
        Finding(
            severity="suspect",
            metrics=ALL,
            seen=f"the server and {' and '.join(shared)} may run on the same CPU: {numbers}",
            threshold="limit: no common CPU",
            means="Each can take time from the other, so the rate is that of both together.",
            advice="Use a machine for each, or give the roles CPUs of their own.",
        )
    ]


CHECK = Check(
    "shared-cpus", "server, load tool or controller may run on the same CPU", of_trial=of_trial, reads="hosts"
)

Owner = tuple[str, str]
"""A machine, and the process on it."""


def _servers(evidence: Evidence) -> Iterator[tuple[Owner, frozenset[int]]]:
    for service in evidence.record.services:
        yield (machine_of(evidence, service.host), service.name), frozenset(service.cpus)


def _generators(evidence: Evidence) -> Iterator[tuple[Owner, frozenset[int]]]:
    for host in evidence.load_hosts:
        masks = [frozenset(each.cpus) for each in evidence.record.generators if each.host == host]
        cpus = frozenset[int]().union(*masks) if all(masks) else frozenset[int]()
        yield (machine_of(evidence, host), "the load tool"), cpus


def _controller(evidence: Evidence) -> Iterator[tuple[Owner, frozenset[int]]]:
    controller = evidence.controller
    if controller is not None and controller.machine is not None:
        yield (controller.machine, "benchkit itself"), frozenset(controller.cpus)
