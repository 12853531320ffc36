"""Configurations of services, judged on their hosts by the programs that will read them, before anything is deployed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchkit.errors import InputError
from benchkit.hosts.connections import Hosts
from benchkit.run.plan.model import PlannedCell
from benchkit.services.deploy import judge


def check_configs(cells: Iterable[PlannedCell], hosts: Hosts) -> None:
    """Have every configuration of the cells judged. Raises InputError naming the scenario's file, line and field."""
    if faults := list(dict.fromkeys(_faults(cells, hosts))):
        raise InputError("\n".join(faults))


def _faults(cells: Iterable[PlannedCell], hosts: Hosts) -> Iterator[str]:
    """What is refused; cells whose configurations differ by the names of folders alone are judged once."""
    judged: set[str] = set()
    for cell in cells:
        if cell.unsupported is not None:
            continue
        for service in cell.services:
            for check in service.checks:
                text = repr([file.content for file in service.files if file.path == check.config])
                key = f"{service.host} {check.argv} {text}".replace(str(service.folder.parent), "…")
                if key in judged:
                    continue
                judged.add(key)
                why = judge(hosts[service.host], service, check)
                if why is not None:
                    place = (service.name, check.field) if check.field else (service.name,)
                    yield cell.cell.services.fault(place, f"{service.backend} on {service.host} refuses it: {why}")
