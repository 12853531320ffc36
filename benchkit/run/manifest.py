"""The manifest of a run before its first trial: scenario, hosts and versions."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType

from benchkit.files import shipped
from benchkit.hosts.connections import Hosts
from benchkit.hosts.cpu_affinity import controller_record
from benchkit.loadtools.registry import get_tool
from benchkit.models.design import is_held
from benchkit.models.run import CodeState, ControllerRecord, HostRecord, Manifest
from benchkit.plan.model import RunPlan, cell_record, inventory_facts
from benchkit.services.git_source import code_state
from benchkit.version import __version__


def new_run_id(prefix: str = "r") -> str:
    """Return an id for a run that starts now; with another prefix, for a series of runs."""
    return f"{prefix}{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(2)}"


def make_manifest(
    plan: RunPlan,
    hosts: Hosts,
    run_id: str | None = None,
    *,
    tags: Mapping[str, str] = MappingProxyType({}),
    code: CodeState | None = None,
) -> Manifest:
    """Return the manifest of a new run of a plan, with its tags and the state of the measured code."""
    scenario: Mapping[str, object] = plan.experiment.document.data
    used = sorted({name for names in plan.roles.values() for name in names})
    return Manifest(
        run_id=run_id or new_run_id(),
        scenario=scenario if plan.design == plan.experiment.scenario.design else {**scenario, "design": plan.design},
        source=plan.experiment.document.source.origin().source,
        scale=plan.experiment.scale,
        settings=plan.experiment.settings,
        seed=plan.seed,
        blocks=plan.blocks,
        cells=tuple(cell_record(cell) for cell in plan.cells if not is_held(cell.cell_id)),
        hosts=tuple(
            HostRecord(name=name, roles=roles_of_host(plan, name), facts=inventory_facts(hosts[name])) for name in used
        ),
        versions={
            "benchkit": __version__,
            "python": platform.python_version(),
            **{
                f"{host.name}.{program}": fact.version
                for host in hosts
                for program, fact in sorted(host.facts.programs.items())
                if fact.version is not None
            },
            **_built_tool_versions(plan),
        },
        controller=controller_placement(plan, hosts),
        thresholds=plan.experiment.scenario.thresholds.model_dump(),
        notes=plan.notes,
        tags=dict(tags),
        code=code,
        started_at=datetime.now(UTC),
    )


def code_of(plan: RunPlan) -> CodeState | None:
    """Return the state of the git checkout that contains the scenario's file, else the current directory.

    Shipped scenarios are in benchkit's own checkout, which is not the measured project.
    """
    file = Path(plan.experiment.document.source.origin().source)
    folders = [file.parent] if file.is_file() and file.resolve().parent != shipped("scenarios") else []
    return next((state for folder in (*folders, Path.cwd()) if (state := code_state(folder)) is not None), None)


def controller_placement(plan: RunPlan, hosts: Hosts) -> ControllerRecord:
    """Return the CPUs for this process during the run: on the servers' machine, those that no server uses."""
    servers: dict[str, set[int]] = {}
    for cell in plan.cells:
        for service in cell.services:
            servers.setdefault(str(hosts[service.host].facts.boot_id), set()).update(service.process.cpus)
    return controller_record(servers)


def _built_tool_versions(plan: RunPlan) -> dict[str, str]:
    programs = [(each.host, get_tool(each.tool)) for cell in plan.cells for each in cell.generators]
    return {f"{host}.{tool.binary}": tool.go_program.version for host, tool in programs if tool.go_program is not None}


def roles_of_host(plan: RunPlan, host: str) -> tuple[str, ...]:
    """Return the roles of a host in a run."""
    return tuple(role for role, names in plan.roles.items() if host in names)
