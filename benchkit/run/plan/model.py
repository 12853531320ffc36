"""The plan of a run: cells, services, load, order, time, and what the hosts cannot carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchkit.errors import HostError
from benchkit.hosts.tuning import SudoCommand, TuningPlan
from benchkit.load.generators.generator import Generator
from benchkit.models.load import Load
from benchkit.scenario.cells import Cell
from benchkit.scenario.profile_pass import in_pass
from benchkit.scenario.read import Experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services.backend import Service
from benchkit.services.builds import Build, builds

LOAD_ROLE = "load"

OVERHEAD_S = 0.5
"""Starting, probing and stopping, for the estimate of a run's time; measured by `make bench`."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell as it will run on these hosts; `unsupported` says why it will not."""

    cell: Cell
    services: tuple[Service, ...]
    load: Load
    generators: tuple[Generator, ...]
    target: str
    unsupported: str | None = None

    @property
    def cell_id(self) -> str:
        """The name of the cell."""
        return self.cell.cell_id

    @property
    def seconds(self) -> float | None:
        """How long a trial of it takes, about; None where it ends after a count of requests at no set rate."""
        load = self.load
        measured = load.requests / load.rate if load.requests and load.rate else load.duration_s
        return None if measured is None else load.warmup_s + measured + OVERHEAD_S


@dataclass(frozen=True)
class RunPlan:
    """Everything a run will do, known before anything is touched."""

    experiment: Experiment
    seed: int
    roles: Mapping[str, tuple[str, ...]]
    """The hosts of each role."""
    cells: tuple[PlannedCell, ...]
    planned_trials: tuple[PlannedTrial, ...]
    notices: tuple[str, ...]
    """What people should know: what is not isolated, not applied, lowered."""
    obstacles: tuple[HostError, ...]
    """What stops the run: a program that a host lacks, a required setting that it does not take."""
    tuning: tuple[TuningPlan, ...]
    """What the scenario's tuning comes to on each host."""
    tuning_required: frozenset[str]
    """Hosts on which a setting that is not applied stops the run."""
    sudo: tuple[SudoCommand, ...] = ()
    """All that runs with sudo."""
    profiled: tuple[PlannedCell, ...] = ()
    """The cells as the profile pass runs them."""

    @property
    def blocks(self) -> int:
        """Repetitions of every cell."""
        return self.experiment.scenario.blocks

    @property
    def seconds(self) -> float | None:
        """How long the run takes, about; None where that is not known of a cell."""
        known = [
            time for planned_trial in self.planned_trials if (time := self.cell_of(planned_trial).seconds) is not None
        ]
        return sum(known) if len(known) == len(self.planned_trials) else None

    @property
    def builds(self) -> tuple[Build, ...]:
        """What has to be built: servers, load tools, and what reads their rows."""
        return builds(
            [(service.host, file) for cell in self.cells for service in cell.services for file in service.files]
            + [
                (generator.host, file)
                for cell in self.cells
                for generator in cell.generators
                for file in generator.programs
            ]
        )

    def cell(self, cell_id: str) -> PlannedCell:
        """The cell of that name."""
        return next(cell for cell in self.cells if cell.cell_id == cell_id)

    def cell_of(self, planned_trial: PlannedTrial) -> PlannedCell:
        """The cell of a trial, as that trial runs it."""
        if not in_pass(planned_trial.kind, planned_trial.cell_id):
            return self.cell(planned_trial.cell_id)
        return next(cell for cell in self.profiled if cell.cell_id == planned_trial.cell_id)
