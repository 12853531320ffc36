"""What two runs stood on: their hosts' facts, and what each of them was asked to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from benchkit.models.base import Frozen
from benchkit.models.run import Manifest
from benchkit.results.rows import flatten_facts

RELEVANT_FACTS = re.compile(
    r"kernel|distribution|machine|glibc|cpus|cpu_model|cores|memory_bytes|nofile_(soft|hard)|governor|virtualisation"
    r"|cpu_groups|link_bps"
    r"|sysctls\..+|programs\..+\.version|interfaces\..+\.(mtu|speed_bps)"
)
"""Facts by which figures may differ; names, addresses, folders and clocks are none of them."""

COMPARED_SETTINGS = ("roles", "stacks", "factors", "load", "tools", "tuning", "design")
"""The parts of a scenario that make its figures."""

_STAGES = ("start", "tuned")
"""As the load found the host: what it was, and over that what the run set."""


class FactDifference(Frozen):
    """Something that differs between two runs: what it was in the first, and is in the second; None: it was not there."""

    where: str
    what: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        """A clause for people."""
        return f"{self.where}: {self.what} was {self.before or 'absent'}, is {self.after or 'absent'}"


def drift(before: pd.DataFrame, after: pd.DataFrame) -> tuple[FactDifference, ...]:
    """The facts that matter and differ between the hosts of two runs; rows as `benchkit.load("hosts")` gives them.

    Hosts are matched by name, those without a namesake by role.
    """
    one, other = _hosts(before), _hosts(after)
    names = {name: name for name in one if name in other}
    roles = {role: name for name, (role, _) in other.items() if name not in names}
    names |= {name: roles[role] for name, (role, _) in one.items() if name not in names and role in roles}
    changes: list[FactDifference] = []
    for name, (role, facts) in one.items():
        if name not in names:
            changes.append(FactDifference(where=f"host {name}", what=f"host for {role}", before=name, after=None))
            continue
        changes += _differing(f"host {names[name]}", facts, other[names[name]][1])
    changes += [
        FactDifference(where=f"host {name}", what=f"host for {role}", before=None, after=name)
        for name, (role, _) in other.items()
        if name not in names.values()
    ]
    return tuple(changes)


def facts_differing(
    where: str, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[FactDifference, ...]:
    """The facts that matter and differ between two looks at a host; facts as a manifest has them of it."""
    looks = [
        _matter({name: text for name, text in flatten_facts(facts) if text is not None}) for facts in (before, after)
    ]
    return tuple(_differing(where, *looks))


def settings_differing(before: Manifest, after: Manifest) -> tuple[FactDifference, ...]:
    """What two runs were asked for that makes their figures differ by itself, and by which benchkit."""
    one, other = (
        {
            what: text
            for what, text in flatten_facts({name: run.scenario.get(name) for name in COMPARED_SETTINGS})
            if text is not None
        }
        for run in (before, after)
    )
    versions = ({"version": run.versions["benchkit"]} if "benchkit" in run.versions else {} for run in (before, after))
    return (*_differing("scenario", one, other), *_differing("benchkit", *versions))


def _hosts(rows: pd.DataFrame) -> dict[str, tuple[str, dict[str, str]]]:
    """The roles and the facts that matter of each host, by its name."""
    hosts: dict[str, tuple[str, dict[str, str]]] = {}
    for name, of_host in rows.groupby("host", sort=True):
        facts: dict[str, str] = {}
        for stage in _STAGES:
            known = of_host[(of_host["at"] == stage) & of_host["value"].notna()]
            facts |= dict(zip(known["fact"], known["value"], strict=True))
        roles = "+".join(sorted(set(of_host["role"])))
        hosts[str(name)] = (roles, _matter(facts))
    return hosts


def _matter(facts: Mapping[str, str]) -> dict[str, str]:
    """Those of a host's facts that matter."""
    interfaces = {key: value for key, value in facts.items() if re.fullmatch(r"interfaces\.\d+\.name", key)}
    named = {key.removesuffix("name"): f"interfaces.{value}." for key, value in interfaces.items()}
    return {_by_name(fact, named): value for fact, value in facts.items() if RELEVANT_FACTS.fullmatch(fact)}


def _by_name(fact: str, interfaces: Mapping[str, str]) -> str:
    """Interfaces are known by their names, not by their place in a list."""
    prefix = next((prefix for prefix in interfaces if fact.startswith(prefix)), None)
    return fact if prefix is None else interfaces[prefix] + fact.removeprefix(prefix)


def _differing(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[FactDifference]:
    return [
        FactDifference(where=where, what=fact, before=before.get(fact), after=after.get(fact))
        for fact in sorted({*before, *after})
        if before.get(fact) != after.get(fact)
    ]
