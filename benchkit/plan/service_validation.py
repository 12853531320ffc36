"""Validation of services that needs their hosts or the network, before anything is deployed.

Programs on the hosts validate the configurations that they will read; releases of Go and Node must exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchkit.errors import BenchkitError, HostError, InputError, raise_faults
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.services.builds import BuiltFolder
from benchkit.services.container_engine import engine_name, proxy_fault, read_engine
from benchkit.services.deploy import config_fault
from benchkit.services.go_build import release_unavailable_reason
from benchkit.services.go_servers import GoServerOptions
from benchkit.services.images import Image
from benchkit.services.node import NodeProgram
from benchkit.services.service import ConfigTest, Container, ControllerFolder, Service


def validate_go_releases(experiment: Experiment) -> None:
    """Validate that the Go releases of the services exist. Raises InputError naming file, line and field."""
    raise_faults(
        service.source.fault(("go_version",), f"found {release!r}; there is no such release: {why}")
        for cell in experiment.cells
        for service in cell.services
        if isinstance(service.options, GoServerOptions)
        and (release := service.options.go_version) is not None
        and (why := release_unavailable_reason(release))
    )


def download_node_releases(cells: Iterable[PlannedCell]) -> None:
    """Download the Node releases of the cells, unless cached. Raises InputError naming file, line and field."""
    faults: list[str] = []
    for cell in cells:
        for service in cell.services:
            for file in service.files:
                try:
                    if isinstance(file.content, NodeProgram):
                        file.content.path()
                except InputError as error:
                    faults.append(cell.spec.service(service.name).source.fault(("node_version",), error.summary))
    raise_faults(faults)


def build_services(cells: Iterable[PlannedCell]) -> list[PlannedCell]:
    """Build the services whose scenario names a command for it; return the cells.

    A version that does not build, or of which its service uses nothing, makes its cell unsupported. Raises InputError
    naming file, line and field where no cell is left, and for such a fault in the files as they are.
    """
    failures: dict[ControllerFolder, str] = {}
    of_versions: list[str] = []
    of_files: list[str] = []
    built: list[PlannedCell] = []
    for cell in cells:
        why = None
        for service in cell.services if cell.unsupported is None else ():
            for folder in service.folders:
                fault = _build_fault(service, folder.content, failures)
                if fault is None:
                    continue
                field, reason = fault
                message = cell.spec.service(service.name).source.fault((field,), reason)
                if isinstance(folder.content, BuiltFolder | Image) and folder.content.source is not None:
                    why = f"{service.name} at {folder.content.source.ref}: {reason}"
                    of_versions.append(message)
                else:
                    of_files.append(message)
        built.append(cell if why is None else replace(cell, unsupported=why))
    has_cells = any(cell.unsupported is None for cell in built)
    raise_faults(of_files if has_cells else [*of_files, *of_versions])
    return built


def _build_fault(
    service: Service, content: ControllerFolder, known: dict[ControllerFolder, str]
) -> tuple[str, str] | None:
    """Build a folder of a service, unless that failed before; return the option at fault, and why."""
    if content not in known:
        try:
            content.read()
        except BenchkitError as error:
            known[content] = ": ".join(filter(None, (error.what, error.why)))
    if content in known:
        return "build", known[content]
    return content.refusal(service) if isinstance(content, BuiltFolder) else None


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
                    faults.append(source.fault((test.field,) if test.field else (), message))
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
