"""Server, generator or controller may run on one CPU."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.analysis.verdicts.check import ALL, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.cpu import machine_of
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> Found:
    """The affinity masks of servers against those of generators on the same machine."""
    servers, loads = dict(_servers(evidence)), dict(_generators(evidence))
    if not all((*servers.values(), *loads.values())):
        return Unchecked(why="the CPUs of its processes are not recorded")
    shared: set[int] = set()
    for (machine, _), cpus in servers.items():
        for (other, _), theirs in loads.items():
            if machine == other:
                shared |= cpus & theirs
    if not shared:
        return ()
    named = ", ".join(map(str, sorted(shared)))
    return [
        Reason(
            severity="suspect",
            metrics=ALL,
            seen=f"server and load tool may both run on CPU {named}",
            threshold="no CPU of both",
            means="Each can take time from the other, so that the rate is that of the two together.",
            advice="Use a machine for each, or give the roles CPUs of their own.",
        )
    ]


CHECK = Check("shared-cpus", "server and load tool may run on one CPU", of_trial=of_trial)

Owner = tuple[str, str]
"""A machine, and the process on it."""


def _servers(evidence: Evidence) -> Iterator[tuple[Owner, frozenset[int]]]:
    for service in evidence.record.services:
        yield (machine_of(evidence, service.host), service.name), frozenset(service.cpus)


def _generators(evidence: Evidence) -> Iterator[tuple[Owner, frozenset[int]]]:
    for generator in evidence.record.generators:
        yield (machine_of(evidence, generator.host), str(generator.number)), frozenset(generator.cpus)
