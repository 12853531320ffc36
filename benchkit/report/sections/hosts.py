"""Hosts of a run: their facts at its start, and the changes during it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.models.run import HostRecord
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.units import ABSENT

START = "start"

_UNITS = {"_bytes": units.size, "_bps": units.bits_per_s, "_s": units.seconds}
"""Format of a fact by the suffix of its name, which is its unit."""


@dataclass(frozen=True)
class HostContent:
    """A host with its roles and facts."""

    name: str
    roles: str
    table: Table


@dataclass(frozen=True)
class HostsContent:
    """All hosts of a run."""

    hosts: tuple[HostContent, ...]


def build(material: Material) -> HostsContent | None:
    """Return a table of facts for each host."""
    run = material.run
    hosts = tuple(HostContent(host.name, ", ".join(host.roles), _facts(host, run.hosts)) for host in run.manifest.hosts)
    return HostsContent(hosts) if hosts else None


SECTION = Section("hosts", "Hosts and their tuning", "hosts.html.j2", build)


def _facts(host: HostRecord, table: pd.DataFrame) -> Table:
    """Return the facts of a host; a host in several roles has each of them once."""
    rows = table[table["host"] == host.name].drop_duplicates(["at", "fact"])
    values: dict[str, dict[str, str]] = {}
    for at, fact, value in zip(rows["at"], rows["fact"], rows["value"], strict=True):
        values.setdefault(str(fact), {})[str(at)] = ABSENT if pd.isna(value) else _format(str(fact), str(value))
    changes = {fact: "; ".join(_changes(by_time)) for fact, by_time in values.items()}
    has_changes = any(changes.values())
    return Table(
        name=f"facts-{host.name}",
        caption=f"Facts of {host.name}",
        columns=(
            Column("Fact", "name"),
            Column("At the start", "prose"),
            *([Column("Changed", "prose")] if has_changes else []),
        ),
        rows=tuple(
            (Entry(fact), Entry(by_time.get(START, ABSENT)), *([Entry(changes[fact])] if has_changes else []))
            for fact, by_time in values.items()
        ),
    )


def _changes(by_time: Mapping[str, str]) -> Iterator[str]:
    """Yield each change of a fact with its time, in the order of the store."""
    before = by_time.get(START)
    for at, value in by_time.items():
        if at != START and value != before:
            yield f"{at}: {value}"
            before = value


def _format(fact: str, value: str) -> str:
    """Return the value as stored, and with its unit if the name of the fact has one."""
    for suffix, text in _UNITS.items():
        if fact.endswith(suffix):
            try:
                return f"{value} ({text(float(value))})"
            except ValueError:
                return value
    return value
