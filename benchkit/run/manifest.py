"""What a run says of itself before it begins: what is asked for, on what hosts, with which versions."""

from __future__ import annotations

import platform
import secrets
from datetime import UTC, datetime
from typing import Any

from benchkit.hosts.connections import Hosts
from benchkit.hosts.cpu_affinity import controller
from benchkit.hosts.host import Host
from benchkit.load.tools.registry import get_tool
from benchkit.models.run import CellRecord, ControllerRecord, HostRecord, Manifest
from benchkit.run.plan.model import RunPlan
from benchkit.version import __version__


def new_run_id() -> str:
    """The name of a run that begins now."""
    return f"r{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def make_manifest(plan: RunPlan, hosts: Hosts, run_id: str | None = None) -> Manifest:
    """The manifest that a run of the plan begins with."""
    used = sorted({name for names in plan.roles.values() for name in names})
    return Manifest(
        run_id=run_id or new_run_id(),
        scenario=plan.experiment.document.data,
        source=plan.experiment.document.source.origin().source,
        scale=plan.experiment.scale,
        settings=plan.experiment.settings,
        seed=plan.seed,
        blocks=plan.blocks,
        cells=tuple(
            CellRecord(cell_id=cell.cell_id, levels=cell.cell.levels, unsupported=cell.unsupported)
            for cell in plan.cells
        ),
        hosts=tuple(HostRecord(name=name, roles=roles_of(plan, name), facts=facts_of(hosts[name])) for name in used),
        versions={"benchkit": __version__, "python": platform.python_version(), **_versions(hosts), **_built(plan)},
        controller=controller_of(plan, hosts),
        thresholds=plan.experiment.scenario.thresholds.model_dump(),
        notices=plan.notices,
        started_at=datetime.now(UTC),
    )


def facts_of(host: Host) -> dict[str, Any]:
    """What the host is, with the cap of its link where its inventory knows one."""
    cap = host.spec.link_bps
    return host.facts.model_dump(mode="json") | ({} if cap is None else {"link_bps": cap})


def controller_of(plan: RunPlan, hosts: Hosts) -> ControllerRecord:
    """Where this process runs while the plan is carried out: off the CPUs of servers, where it is on a machine of theirs."""
    servers: dict[str, set[int]] = {}
    for cell in plan.cells:
        for service in cell.services:
            servers.setdefault(str(hosts[service.host].facts.boot_id), set()).update(service.process.cpus)
    return controller(servers)


def _versions(hosts: Hosts) -> dict[str, str]:
    return {
        f"{host.name}.{program}": fact.version
        for host in hosts
        for program, fact in sorted(host.facts.programs.items())
        if fact.version is not None
    }


def _built(plan: RunPlan) -> dict[str, str]:
    """The versions of load tools that benchkit builds, in the place of those that hosts may have."""
    programs = [(each.host, get_tool(each.tool)) for cell in plan.cells for each in cell.generators]
    return {f"{host}.{tool.binary}": tool.go_program.version for host, tool in programs if tool.go_program is not None}


def roles_of(plan: RunPlan, host: str) -> tuple[str, ...]:
    """The roles that a host has in a run."""
    return tuple(role for role, names in plan.roles.items() if host in names)
