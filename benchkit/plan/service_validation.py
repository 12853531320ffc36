"""Validation of services that needs their hosts, before anything is deployed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchkit.errors import BenchkitError, HostError, raise_faults
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.plan.model import PlannedCell
from benchkit.services.builds import Built, BuiltFolder, builds_of, unused_build
from benchkit.services.container_engine import engine_name, proxy_fault, read_engine
from benchkit.services.deploy import config_fault
from benchkit.services.service import ConfigTest, Container, Service


def build_services(cells: Iterable[PlannedCell]) -> list[PlannedCell]:
    """Build the services whose scenario names a command for it; return the cells.

    A version that does not build, or of which its service uses nothing, makes its cell unsupported. Raises InputError
    naming file, line and field where no cell is left, and for such a fault in the files as they are.
    """
    failures: dict[Built, str] = {}
    of_versions: list[str] = []
    of_files: list[str] = []
    built: list[PlannedCell] = []
    for cell in cells:
        why = None
        for service in cell.services if cell.unsupported is None else ():
            for content in builds_of(service):
                fault = _build_fault(service, content, failures)
                if fault is None:
                    continue
                field, reason = fault
                message = cell.spec.service(service.name).source.fault((field,), reason)
                if content.source is not None:
                    why = f"{service.name} at {content.source.ref}: {reason}"
                    of_versions.append(message)
                else:
                    of_files.append(message)
        built.append(cell if why is None else replace(cell, unsupported=why))
    has_cells = any(cell.unsupported is None for cell in built)
    raise_faults(of_files if has_cells else [*of_files, *of_versions])
    return built


def _build_fault(service: Service, content: Built, known: dict[Built, str]) -> tuple[str, str] | None:
    """Build a part of a service, unless that failed before; return the option at fault, and why."""
    if content not in known:
        try:
            content.read()
        except BenchkitError as error:
            known[content] = ": ".join(filter(None, (error.what, error.why)))
    if content in known:
        return "build", known[content]
    return unused_build(content, service) if isinstance(content, BuiltFolder) else None


def validate_engines(cells: Iterable[PlannedCell], hosts: Hosts) -> list[PlannedCell]:
    """Read the container engines of the cells; return the cells, unsupported where an engine cannot be used."""
    failures: dict[tuple[str, str], str] = {}
    validated: list[PlannedCell] = []
    for cell in cells:
        containers = [(service.host, service.container) for service in cell.services if service.container is not None]
        faults = (_engine_fault(container, hosts[host], failures) for host, container in containers)
        validated.append(replace(cell, unsupported=cell.unsupported or next(filter(None, faults), None)))
    return validated


def _engine_fault(container: Container, host: Host, known: dict[tuple[str, str], str]) -> str | None:
    """Add an engine to the facts of a host, unless that was done or failed before; return why it cannot be used."""
    name = engine_name(container.engine)
    if name not in host.facts.engines and (host.name, name) not in known:
        try:
            host.add_engine(name, read_engine(host, name))
        except HostError as error:
            known[host.name, name] = str(error)
    fault = known.get((host.name, name))
    return proxy_fault(container, host.facts.engines[name], host.name) if fault is None else fault


def validate_configs(cells: Iterable[PlannedCell], hosts: Hosts) -> list[PlannedCell]:
    """Test every configuration of the cells; return the cells, unsupported where a host rejects an optional one.

    Raises InputError naming the scenario's file, line and field.
    """
    known: dict[str, str | None] = {}
    faults: list[str] = []
    validated: list[PlannedCell] = []
    for cell in cells:
        unsupported = cell.unsupported
        for service in cell.services if cell.unsupported is None else ():
            for test in service.config_tests:
                why = _rejection(service, test, hosts, known)
                if why is None:
                    continue
                message = f"{service.backend} on {service.host} rejects it: {why}"
                if test.is_optional:
                    unsupported = message
                else:
                    source = cell.spec.service(service.name).source
                    faults.append(source.fault((), message))
        validated.append(replace(cell, unsupported=unsupported))
    raise_faults(faults)
    return validated


def _rejection(service: Service, test: ConfigTest, hosts: Hosts, known: dict[str, str | None]) -> str | None:
    """Return why a program rejects a configuration, or None; those that differ in folders only are tested once."""
    text = repr([file.content for file in service.files if file.path == test.config])
    key = f"{service.host} {test.argv} {text}".replace(str(service.folder.parent), "…")
    if key not in known:
        known[key] = config_fault(hosts[service.host], service, test)
    return known[key]
