"""The manifest of a run before its first trial: scenario, hosts and versions."""

from __future__ import annotations

import hashlib
import hmac
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes, token_hex
from types import MappingProxyType

from benchkit.hosts.connections import Hosts
from benchkit.hosts.cpu_affinity import controller_record
from benchkit.hosts.host import Host
from benchkit.load.tools.registry import get_tool
from benchkit.models.facts import RecordedFacts
from benchkit.models.run import BuildRecord, CellRecord, CodeState, ControllerRecord, HostRecord, Manifest
from benchkit.resources import shipped
from benchkit.run.plan.model import PlannedCell, RunPlan
from benchkit.services.carried_files import content_sha256
from benchkit.services.command_build import BuiltFolder
from benchkit.services.git_source import code_state
from benchkit.services.secret_files import get_or_create
from benchkit.version import __version__

DIGEST_KEY = "header-digests"
"""Name of the key of digests among the secrets that the controller keeps."""


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
    """Return the manifest with which a run of the plan starts, with the tags and the code state that it records."""
    used = sorted({name for names in plan.roles.values() for name in names})
    return Manifest(
        run_id=run_id or new_run_id(),
        scenario=_scenario_as_run(plan),
        source=plan.experiment.document.source.origin().source,
        scale=plan.experiment.scale,
        settings=plan.experiment.settings,
        seed=plan.seed,
        blocks=plan.blocks,
        groups=plan.groups,
        cells=tuple(cell_record(cell) for cell in plan.cells),
        hosts=tuple(
            HostRecord(
                name=name,
                roles=roles_of_host(plan, name),
                testbed=hosts[name].spec.testbed,
                facts=inventory_facts(hosts[name]),
            )
            for name in used
        ),
        header_digests=header_digests(plan),
        versions={
            "benchkit": __version__,
            "python": platform.python_version(),
            **_program_versions(hosts),
            **_built_tool_versions(plan),
        },
        controller=controller_placement(plan, hosts),
        thresholds=plan.experiment.scenario.thresholds.model_dump(),
        notices=plan.notices,
        tags=dict(tags),
        code=code,
        started_at=datetime.now(UTC),
    )


def cell_record(cell: PlannedCell) -> CellRecord:
    """Return the record of a planned cell."""
    return CellRecord(
        cell_id=cell.cell_id,
        levels=cell.spec.levels,
        unsupported=cell.unsupported,
        builds=dict(_builds(cell)) if cell.unsupported is None else {},
        files=dict(_files(cell)) if cell.unsupported is None else {},
        same_as=cell.same_as,
        external={service.name: service.url for service in cell.spec.external},
        sysctls=cell.sysctls if cell.unsupported is None else {},
    )


def code_of(plan: RunPlan) -> CodeState | None:
    """Return the state of the git checkout with the scenario's file, else of the one that this process runs in.

    The checkout of a shipped scenario is that of benchkit, and not of what is measured.
    """
    file = Path(plan.experiment.document.source.origin().source)
    own = [file.parent] if file.is_file() and file.resolve().parent != shipped("scenarios") else []
    return next((state for folder in (*own, Path.cwd()) if (state := code_state(folder)) is not None), None)


def _scenario_as_run(plan: RunPlan) -> Mapping[str, object]:
    """Return the scenario with the design that the run takes."""
    scenario: Mapping[str, object] = plan.experiment.document.data
    return scenario if plan.design == plan.experiment.scenario.design else {**scenario, "design": plan.design}


def header_digests(plan: RunPlan) -> Mapping[str, str]:
    """Return digests of the secret header values of a plan, by header and source, as far as they are known.

    Each is keyed (HMAC, RFC 2104) with a key that never leaves this controller: a plain or salted hash of a short
    secret is found by trying.
    """
    secrets = dict.fromkeys(
        (f"{name} from {secret}", secret.reveal())
        for cell in plan.cells
        for name, secret in cell.spec.load.secrets
        if secret.is_read
    )
    if not secrets:
        return {}
    key = get_or_create(DIGEST_KEY, lambda: token_bytes(32))
    digests = {what: hmac.new(key, digestmod="sha256") for what, _ in secrets}
    for what, value in sorted(secrets):
        digests[what].update(hashlib.sha256(value.encode()).digest())
    return {what: f"hmac-sha256:{digest.hexdigest()}" for what, digest in digests.items()}


def _builds(cell: PlannedCell) -> Iterator[tuple[str, BuildRecord]]:
    """Yield the records of the built services of a cell, by name."""
    for service in cell.services:
        for folder in service.folders:
            if isinstance(folder.content, BuiltFolder):
                source = folder.content.source
                yield (
                    service.name,
                    BuildRecord(
                        ref=source.ref if source else None,
                        commit=source.commit if source else None,
                        diff_sha256=source.diff_sha256 if source else None,
                        output_sha256=folder.content.build().sha256,
                    ),
                )


def _files(cell: PlannedCell) -> Iterator[tuple[str, str]]:
    """Yield a description and the hash of each file and folder of the controller that a cell uses as it is."""
    for service in cell.spec.services:
        for path in service.backend.local_files(service.options):
            yield f"{path.name} of {service.name}", content_sha256(path)
    for request in cell.spec.load.requests:
        if request.body_file is not None and request.content is not None:
            yield f"body {request.body_file}", hashlib.sha256(request.content).hexdigest()


def inventory_facts(host: Host) -> RecordedFacts:
    """Return the facts of a host, with the capacity of its link where the inventory has it."""
    cap = host.spec.link_bps
    return RecordedFacts.model_validate(host.facts.model_dump() | ({} if cap is None else {"link_bps": cap}))


def controller_placement(plan: RunPlan, hosts: Hosts) -> ControllerRecord:
    """Return the CPUs for this process during the run: none of the servers' CPUs, where it shares their machine."""
    servers: dict[str, set[int]] = {}
    for cell in plan.placed_cells:
        for service in cell.services:
            servers.setdefault(str(hosts[service.host].facts.boot_id), set()).update(service.process.cpus)
    return controller_record(servers)


def _program_versions(hosts: Hosts) -> dict[str, str]:
    return {
        f"{host.name}.{program}": fact.version
        for host in hosts
        for program, fact in sorted(host.facts.programs.items())
        if fact.version is not None
    }


def _built_tool_versions(plan: RunPlan) -> dict[str, str]:
    """Return the versions of the load tools that benchkit builds, which are used instead of those on the hosts."""
    programs = [(each.host, get_tool(each.tool)) for cell in plan.placed_cells for each in cell.generators]
    return {f"{host}.{tool.binary}": tool.go_program.version for host, tool in programs if tool.go_program is not None}


def used_programs(plan: RunPlan, host: Host) -> dict[str, str]:
    """Return the host's own programs that the run starts there, name → path; those of benchkit do not change."""
    words = {
        word
        for cell in plan.placed_cells
        for where, argv in (
            *((service.host, service.process.argv) for service in cell.services),
            *((generator.host, generator.argv) for generator in cell.generators),
        )
        if where == host.name
        for word in argv
    }
    programs = host.facts.programs.items()
    return {name: fact.path for name, fact in programs if not words.isdisjoint((name, fact.path))}


def roles_of_host(plan: RunPlan, host: str) -> tuple[str, ...]:
    """Return the roles of a host in a run."""
    return tuple(role for role, names in plan.roles.items() if host in names)
