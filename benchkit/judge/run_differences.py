"""Differences between two runs: facts of their hosts, and settings of their scenarios."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchkit.models.base import Frozen
from benchkit.models.facts import RecordedFacts
from benchkit.models.run import Manifest
from benchkit.store.row_builders import flatten_facts

if TYPE_CHECKING:
    import pandas as pd

RELEVANT_FACTS = re.compile(
    r"kernel|distribution|machine|glibc|cpus|cpu_model|cores|memory_bytes|nofile_(soft|hard)|governor|virtualisation"
    r"|cpu_groups|link_bps"
    r"|sysctls\..+|programs\..+\.version|engines\..+|interfaces\..+\.(mtu|speed_bps)"
)
"""Facts that can change results; names, addresses, folders and clocks cannot."""

COMPARED_SETTINGS = ("roles", "stacks", "factors", "load", "tools", "tuning", "design")
"""Parts of a scenario that change results."""

_GIB = 1 << 30

RUN_STAGES = ("start", "tuned")
"""Stages whose host facts hold for all trials of a run: the start, updated with the settings that the run applied."""

BLOCK_STAGE = re.compile(r"block ([0-9]+)")
"""Pattern of the stages whose host facts hold for the trials of one block."""


class FactDifference(Frozen):
    """A fact that differs between two runs: its value in the first and in the second; None: absent."""

    where: str
    what: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        """Difference as a clause."""
        return f"{self.where}: {self.what} was {self.before or 'absent'}, is {self.after or 'absent'}"


def host_differences(before: pd.DataFrame, after: pd.DataFrame) -> tuple[FactDifference, ...]:
    """Return the relevant facts that differ between the hosts of two runs; rows as `benchkit.load("hosts")` gives them.

    Hosts are matched by name, those without a match by role.
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
        changes += text_differences(f"host {names[name]}", facts, other[names[name]][1])
    changes += [
        FactDifference(where=f"host {name}", what=f"host for {role}", before=None, after=name)
        for name, (role, _) in other.items()
        if name not in names.values()
    ]
    return tuple(changes)


def machine_differences(before: Manifest, after: Manifest) -> tuple[FactDifference, ...]:
    """Return the differences between the machines of two runs, by role.

    Runs on different machines can only be compared by their ratios; so can imported runs, whose machines are unknown.
    """
    if before.is_imported or after.is_imported:
        known = ["not known" if run.is_imported else f"{len(run.hosts)} recorded" for run in (before, after)]
        return (FactDifference(where="hosts", what="their machine", before=known[0], after=known[1]),)
    one, other = (
        {"+".join(sorted(host.roles)): machine_facts(host.facts) for host in run.hosts} for run in (before, after)
    )
    return tuple(
        change
        for roles in sorted({*one, *other})
        for change in text_differences(f"host for {roles}", one.get(roles, {}), other.get(roles, {}))
    )


def machine_facts(facts: RecordedFacts) -> dict[str, str]:
    """Return the hardware of a machine, as text by fact; memory in two digits, as kernels reserve some of it."""
    values = {
        "architecture": facts.machine,
        "processor": facts.cpu_model,
        "CPUs": len(facts.cpus) or None,
        "cores": facts.cores,
        "memory": memory_text(facts),
        "link": facts.link_bps,
        "virtualisation": facts.virtualisation,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def memory_text(facts: RecordedFacts) -> str | None:
    """Return the memory of a machine in two digits; None: unknown."""
    return None if facts.memory_bytes is None else f"{facts.memory_bytes / _GIB:.2g} GiB"


def fact_differences(where: str, before: RecordedFacts, after: RecordedFacts) -> tuple[FactDifference, ...]:
    """Return the relevant facts that differ between two readings of a host."""
    return tuple(text_differences(where, relevant_facts(before), relevant_facts(after)))


def relevant_facts(facts: RecordedFacts) -> dict[str, str]:
    """Return the facts of a host that can change results, as text by dotted name."""
    flat = flatten_facts(facts.model_dump(mode="json"))
    return _relevant({name: text for name, text in flat if text is not None})


def setting_differences(before: Manifest, after: Manifest) -> tuple[FactDifference, ...]:
    """Return the settings of two runs that change results, and their benchkit versions, where they differ."""
    versions = ({"version": run.versions["benchkit"]} if "benchkit" in run.versions else {} for run in (before, after))
    return (
        *text_differences("scenario", compared_settings(before), compared_settings(after)),
        *text_differences("benchkit", *versions),
        *_changed("build", _builds(before), _builds(after)),
        *_changed("file", _files(before), _files(after)),
    )


def compared_settings(run: Manifest) -> dict[str, str]:
    """Return the settings of a run that can change results, as text by dotted name."""
    flat = flatten_facts({name: run.scenario.get(name) for name in COMPARED_SETTINGS})
    return {name: text for name, text in flat if text is not None}


def _builds(run: Manifest) -> dict[str, str]:
    """Return the commit and the output of each built service of each cell."""
    return {
        f"{cell.cell_id} {name}": f"{build.commit or 'files'} with output {build.output_sha256[:12]}"
        if build.image is None
        else f"image {build.image} with id {build.output_sha256[:12]}"
        for cell in run.cells
        for name, build in cell.builds.items()
    }


def _files(run: Manifest) -> dict[str, str]:
    """Return the contents of the controller's files that each cell used."""
    return {
        f"{name} in {cell.cell_id}": f"content {sha256[:12]}"
        for cell in run.cells
        for name, sha256 in cell.files.items()
    }


def image_ids(run: Manifest) -> dict[str, str]:
    """Return the ids of the images that a scenario names: two runs of one tag may have different images."""
    builds = [build for cell in run.cells for build in cell.builds.values()]
    return {f"image {build.image}": f"id {build.output_sha256[:12]}" for build in builds if build.image is not None}


def _hosts(rows: pd.DataFrame) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the roles and the relevant facts of each host, by its name."""
    hosts: dict[str, tuple[str, dict[str, str]]] = {}
    for name, of_host in rows.groupby("host", sort=True):
        facts: dict[str, str] = {}
        for stage in RUN_STAGES:
            known = of_host[(of_host["at"] == stage) & of_host["value"].notna()]
            facts |= dict(zip(known["fact"], known["value"], strict=True))
        roles = "+".join(sorted(set(of_host["role"])))
        hosts[str(name)] = (roles, _relevant(facts))
    return hosts


def _relevant(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the relevant facts; an interface's facts are under its name instead of its position in a list."""

    def named(position: re.Match[str]) -> str:
        return f"interfaces.{facts.get(f'{position[0]}name', position[1])}."

    relevant = {fact: value for fact, value in facts.items() if RELEVANT_FACTS.fullmatch(fact)}
    return {re.sub(r"^interfaces\.(\d+)\.", named, fact): value for fact, value in relevant.items()}


def _changed(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[FactDifference]:
    """Return the facts of both runs that differ; a fact of one run alone is a difference of their scenarios."""
    return text_differences(
        where, *({fact: run[fact] for fact in before.keys() & after.keys()} for run in (before, after))
    )


def text_differences(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[FactDifference]:
    """Return the texts that differ between two mappings by name, sorted; one may lack a name."""
    return [
        FactDifference(where=where, what=fact, before=before.get(fact), after=after.get(fact))
        for fact in sorted({*before, *after})
        if before.get(fact) != after.get(fact)
    ]
