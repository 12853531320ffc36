"""The plan of a run: its cells on the hosts, the order of its trials, and its duration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.tuning import SudoCommand, TuningPlan
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.load_shares import Pauses, pauses, turn_s
from benchkit.models.design import Design, controlled
from benchkit.models.facts import RecordedFacts
from benchkit.models.load import Load
from benchkit.models.run import BuildRecord, CellRecord, PassKind
from benchkit.scenario.experiment import Cell, Experiment
from benchkit.scenario.trial_order import CURVE_S, PlannedTrial, is_of_pass, slice_count
from benchkit.services.builds import Build, builds_of, list_builds
from benchkit.services.controller_files import content_sha256
from benchkit.services.images import LocalImage
from benchkit.services.placement import Endpoint
from benchkit.services.service import Service

OVERHEAD_S = 0.5
"""Time to start, probe and stop services, for the estimate of a run's duration; measured by `make bench`."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell as it runs on these hosts; `unsupported` is the reason why it cannot."""

    spec: Cell
    """The cell of the scenario."""
    services: tuple[Service, ...]
    load: Load
    generators: tuple[Generator, ...]
    target: str
    """URL that the load goes to, without a path where its requests have several."""
    unsupported: str | None = None
    same_as: str | None = None
    """Earlier cell that is equal, with identical builds; None if there is none."""
    entry: Endpoint | None = None
    """The socket that the load goes to; None for an unsupported cell."""
    tuning: tuple[TuningPlan, ...] = ()
    """Kernel settings only for its trials, which override those of the run, by host."""
    drain_s: float = 0.0
    """Time after a slice in which the server works on the requests that its load tool abandons."""

    @property
    def sysctls(self) -> dict[str, dict[str, str]]:
        """Values of the kernel settings only for its trials, by host."""
        return {planned.host: planned.values for planned in self.tuning if planned.values}

    @property
    def cell_id(self) -> str:
        """Name of the cell."""
        return self.spec.cell_id

    @property
    def seconds(self) -> float | None:
        """Estimated duration of a trial; None if it ends after a number of requests at no set rate."""
        load = self.load
        if load.capacity is not None and load.searches_capacity:
            return load.capacity.budget_s + load.warmup_s + (load.duration_s or 0.0) + OVERHEAD_S
        measured = load.request_count / load.rate if load.request_count and load.rate else load.duration_s
        return None if measured is None else load.warmup_s + measured + OVERHEAD_S

    @property
    def pauses(self) -> Pauses:
        """Time before and after the window of a slice."""
        around = pauses(self.load, has_tls=self.entry is not None and self.entry.tls is not None)
        return around._replace(margin_s=round(around.margin_s + self.drain_s, 3))

    @property
    def calibrated(self) -> PlannedCell:
        """The cell with a search for the capacity instead of a rate that is a share of it."""
        return replace(self, load=self.load.model_copy(update={"share_of_capacity": None, "shape": None}))


def describe_cell(planned: PlannedCell) -> str:
    """Return a cell as a text that equal cells share: folders named after the cell are omitted."""
    text = repr((planned.services, planned.load, planned.target, planned.sysctls))
    for service in planned.services:
        text = text.replace(str(service.folder.parent), "…")
    return text


def tuning_required_error(not_applied: str) -> HostError:
    """Return the error for required settings that are not applied, as the text `not_applied` says."""
    return HostError(not_applied, hint="the scenario requires this tuning")


def ports_of(services: Iterable[Service]) -> Iterator[tuple[str, int]]:
    """Yield host and port of every TCP socket of services."""
    for service in services:
        for endpoint in (service.endpoint, *([service.admin.endpoint] if service.admin else [])):
            if endpoint.port is not None:
                yield service.host, endpoint.port


def cells_with_capacity(cells: Iterable[PlannedCell]) -> dict[str, str]:
    """Return, for each cell at a share of a capacity, the otherwise equal cell whose capacity is searched."""
    first: dict[str, str] = {}
    return {
        cell.cell_id: first.setdefault(describe_cell(cell.calibrated), controlled(cell.cell_id) or cell.cell_id)
        for cell in cells
        if cell.unsupported is None and cell.load.share_of_capacity is not None
    }


@dataclass(frozen=True)
class RunPlan:
    """All steps of a run, known before any host is changed."""

    experiment: Experiment
    seed: int
    roles: Mapping[str, tuple[str, ...]]
    """Hosts of each role."""
    cells: tuple[PlannedCell, ...]
    planned_trials: tuple[PlannedTrial, ...]
    notes: tuple[str, ...]
    """Limitations for readers of the results, such as settings that are not applied."""
    tuning: tuple[TuningPlan, ...]
    """Tuning of each host for the whole run."""
    tuning_required: frozenset[str]
    """Hosts on which a setting that is not applied stops the run."""
    sudo: tuple[SudoCommand, ...] = ()
    """All commands that run with sudo."""
    observed: Mapping[PassKind, tuple[PlannedCell, ...]] = field(default_factory=dict)
    """Cells of each pass."""
    design: Design = "blocks"
    """Design of the measured trials; not the scenario's where these hosts or cells need another."""
    design_reason: str = ""
    """Reason for the design, as a clause."""

    @property
    def whole_tuning(self) -> tuple[TuningPlan, ...]:
        """Tuning of each host for the whole run, and for the trials of each cell."""
        supported = [cell for cell in self.cells if cell.unsupported is None]
        of_cells = {(planned.host, planned.settings): planned for cell in supported for planned in cell.tuning}
        return (*self.tuning, *of_cells.values())

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.experiment.scenario.blocks

    @cached_property
    def seconds(self) -> float | None:
        """Estimated duration of the run; None if a cell's is unknown."""
        seconds = [self._trial_s(trial) for trial in self.planned_trials]
        known = [each for each in seconds if each is not None]
        return sum(known) if len(known) == len(seconds) else None

    @property
    def slice_s(self) -> float | None:
        """Length of the slices of measured trials; None unless the design is `sliced`."""
        return self.experiment.scenario.slice_s if self.design == "sliced" else None

    def slice_of(self, trial: PlannedTrial) -> float | None:
        """Return the length of the slices of a trial; None where its window is in one piece."""
        return self.slice_s if trial.is_measured else None

    @cached_property
    def capacity_cells(self) -> Mapping[str, str]:
        """For each cell at a share of a capacity, the cell whose capacity is searched."""
        return cells_with_capacity(self.cells)

    def _trial_s(self, trial: PlannedTrial) -> float | None:
        cell = self.cell_of(trial)
        if trial.kind == "calibrate":
            return CURVE_S if cell.load.share_of_capacity is None else cell.calibrated.seconds
        if cell.seconds is None or self.slice_s is None or is_of_pass(trial.kind, trial.cell_id):
            return cell.seconds
        duration_s = cell.load.duration_s or 0.0
        return cell.seconds - duration_s + slice_count(duration_s, self.slice_s) * turn_s(cell.pauses, self.slice_s)

    @property
    def builds(self) -> tuple[Build, ...]:
        """Programs to build: servers, load tools and reducers of their rows."""
        return list_builds(
            [(each.host, file) for cell in self.cells for each in cell.services for file in each.files]
            + [(each.host, file) for cell in self.cells for each in cell.generators for file in each.programs]
        )

    def cell(self, cell_id: str) -> PlannedCell:
        """Return the cell of that name. Raises KeyError if the plan has none."""
        return self._cells_by_id[cell_id]

    def cell_of(self, trial: PlannedTrial) -> PlannedCell:
        """Return the cell of a trial, with the load of its pass if it is in one."""
        if not is_of_pass(trial.kind, trial.cell_id):
            return self._cells_by_id[trial.cell_id]
        return self._observed_by_id[self._passes[trial.block], trial.cell_id]

    @cached_property
    def _passes(self) -> Mapping[int, PassKind]:
        return {trial.block: kind for kind in self.observed for trial in self.planned_trials if trial.kind == kind}

    @cached_property
    def _cells_by_id(self) -> Mapping[str, PlannedCell]:
        return {cell.cell_id: cell for cell in self.cells}

    @cached_property
    def _observed_by_id(self) -> Mapping[tuple[PassKind, str], PlannedCell]:
        return {(kind, cell.cell_id): cell for kind, cells in self.observed.items() for cell in cells}

    def require_tuning(self, host: str, not_applied: Sequence[str]) -> None:
        """Raise HostError if `not_applied` has a sentence on a setting of a host whose tuning is required."""
        if not_applied and host in self.tuning_required:
            raise tuning_required_error("; ".join(not_applied))


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
    for request in cell.spec.load.requests:
        if request.body_file is not None and request.content is not None:
            yield f"body {request.body_file}", hashlib.sha256(request.content).hexdigest()


def inventory_facts(host: Host) -> RecordedFacts:
    """Return the facts of a host, with the capacity of its link if the inventory states it."""
    link_bps = host.spec.link_bps
    facts = host.facts.model_dump() | ({} if link_bps is None else {"link_bps": link_bps})
    return RecordedFacts.model_validate(facts)


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
