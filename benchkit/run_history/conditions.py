"""The conditions of a run, its hosts and its settings: all but the code under test that can change its results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from benchkit.judge.run_differences import COMPARED_SETTINGS, relevant_facts
from benchkit.models.base import Frozen
from benchkit.models.run import HostRecord, Manifest
from benchkit.store.row_builders import flatten_facts

_NO_CONDITION = re.compile(r"factors(\..*)?|.*\.source\.ref")
"""Settings that say which cells and which state of the code were measured."""

_GIB = 1 << 30
_MAX_LISTED = 4


class Conditions(Frozen):
    """Fingerprints of hosts and settings: runs of equal conditions can be compared by their values."""

    hosts: str
    settings: str


def conditions_of(manifest: Manifest, tools: Iterable[str]) -> Conditions:
    """Return the conditions of a run with these load tools; names of hosts do not matter, their roles do."""
    hosts = sorted([sorted(host.roles), sorted(_host_facts(manifest, host, tools).items())] for host in manifest.hosts)
    return Conditions(hosts=_fingerprint(hosts), settings=_fingerprint(sorted(_settings(manifest).items())))


def condition_differences(before: Manifest, after: Manifest, tools: Iterable[str]) -> tuple[str, ...]:
    """Return the differences between the conditions of two runs, as clauses."""
    used = tuple(tools)
    one, other = (
        {"+".join(sorted(host.roles)): _host_facts(manifest, host, used) for host in manifest.hosts}
        for manifest in (before, after)
    )
    found: list[str] = []
    for roles in sorted({*one, *other}):
        found += _differences(f"host for {roles}", one.get(roles, {}), other.get(roles, {}))
    found += _differences("scenario", _settings(before), _settings(after))
    more = len(found) - _MAX_LISTED
    return (*found[:_MAX_LISTED], *([f"{more} more"] if more > 0 else []))


def _host_facts(manifest: Manifest, host: HostRecord, tools: Iterable[str]) -> dict[str, str]:
    """Return the relevant facts of a host, with the programs that the scenario uses; memory in two digits."""
    words = {text for _, text in flatten_facts(manifest.scenario) if text is not None}
    facts = relevant_facts(host.facts.with_programs({*tools, *words}))
    if host.facts.memory_bytes is not None:
        facts["memory_bytes"] = f"{host.facts.memory_bytes / _GIB:.2g} GiB"
    return facts


def _settings(manifest: Manifest) -> dict[str, str]:
    flat = flatten_facts({name: manifest.scenario.get(name) for name in COMPARED_SETTINGS})
    return {name: text for name, text in flat if text is not None and not _NO_CONDITION.fullmatch(name)}


def _differences(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{where}: {name} was {before.get(name, 'absent')}, is {after.get(name, 'absent')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _fingerprint(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
