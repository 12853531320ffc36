"""The hosts of a run: what they were at its start, and what changed on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.models.run import HostRecord
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.units import ABSENT

START = "start"

_UNITS = {"_bytes": units.size, "_bps": units.bits_per_s, "_s": units.seconds}
"""How the ends of facts' names say their unit."""


def build(material: Material) -> Mapping[str, Any] | None:
    """A table of facts for each host."""
    run = material.run
    hosts = [
        {"name": host.name, "roles": ", ".join(host.roles), "table": _facts(host, run.hosts)}
        for host in run.manifest.hosts
    ]
    return {"hosts": hosts} if hosts else None


SECTION = Section("hosts", "Hosts and their tuning", "hosts.html.j2", build)


def _facts(host: HostRecord, table: pd.DataFrame) -> Table:
    """The facts of a host; a host in several roles has each of them once."""
    own = table[table["host"] == host.name].drop_duplicates(["at", "fact"])
    values: dict[str, dict[str, str]] = {}
    for at, fact, value in zip(own["at"], own["fact"], own["value"], strict=True):
        values.setdefault(str(fact), {})[str(at)] = ABSENT if pd.isna(value) else _shown(str(fact), str(value))
    changed = {fact: "; ".join(_changes(by_time)) for fact, by_time in values.items()}
    later = any(changed.values())
    return Table(
        name=f"facts-{host.name}",
        caption=f"Facts of {host.name}",
        columns=(
            Column("Fact", "name"),
            Column("At the start", "prose"),
            *([Column("Changed", "prose")] if later else []),
        ),
        rows=tuple(
            (Entry(fact), Entry(by_time.get(START, ABSENT)), *([Entry(changed[fact])] if later else []))
            for fact, by_time in values.items()
        ),
    )


def _changes(by_time: Mapping[str, str]) -> Iterator[str]:
    """When a fact became what, in the order of the store."""
    before = by_time.get(START)
    for at, value in by_time.items():
        if at != START and value != before:
            yield f"{at}: {value}"
            before = value


def _shown(fact: str, value: str) -> str:
    """The value as stored, and as people read it where its name says the unit."""
    for suffix, text in _UNITS.items():
        if fact.endswith(suffix):
            try:
                return f"{value} ({text(float(value))})"
            except ValueError:
                return value
    return value
