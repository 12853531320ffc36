"""Records of a plan's cells, and of its hosts' facts and programs, for comparison with an earlier plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from benchkit.hosts.host import Host
from benchkit.models.facts import RecordedFacts
from benchkit.models.run import BuildRecord, CellRecord
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.services.builds import builds_of
from benchkit.services.controller_files import content_sha256
from benchkit.services.images import LocalImage


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
        deployed=tuple(service.name for service in cell.spec.external if "deploy" in service.hooks),
        watched=tuple(service.name for service in cell.spec.external if service.watch),
        sysctls=cell.sysctls if cell.unsupported is None else {},
    )


def _builds(cell: PlannedCell) -> Iterator[tuple[str, BuildRecord]]:
    for service in cell.services:
        for built in builds_of(service):
            source = built.source
            yield (
                service.name,
                BuildRecord(
                    ref=source.ref if source else None,
                    commit=source.commit if source else None,
                    diff_sha256=source.diff_sha256 if source else None,
                    image=built.name if isinstance(built, LocalImage) else None,
                    output_sha256=built.build().sha256,
                ),
            )


def _files(cell: PlannedCell) -> Iterator[tuple[str, str]]:
    for service in cell.spec.services:
        for path in service.backend.local_files(service.options):
            yield f"{path.name} of {service.name}", content_sha256(path)
    for name, content in cell.spec.load.script_files.items():
        yield f"script {name}", hashlib.sha256(content).hexdigest()
    for request in cell.spec.load.requests:
        if request.body_file is not None and request.content is not None:
            yield f"body {request.body_file}", hashlib.sha256(request.content).hexdigest()


def inventory_facts(host: Host) -> RecordedFacts:
    """Return the facts of a host, with the capacity of its link where the inventory has it."""
    cap = host.spec.link_bps
    return RecordedFacts.model_validate(host.facts.model_dump() | ({} if cap is None else {"link_bps": cap}))


def used_programs(plan: RunPlan, host: Host) -> dict[str, str]:
    """Return the host's programs that the run starts, name → path, without programs that benchkit builds."""
    words = {
        word
        for cell in plan.cells
        for where, argv in (
            *((service.host, service.process.argv) for service in cell.services),
            *((generator.host, generator.argv) for generator in cell.generators),
        )
        if where == host.name
        for word in argv
    }
    programs = host.facts.programs.items()
    return {name: fact.path for name, fact in programs if not words.isdisjoint((name, fact.path))}
