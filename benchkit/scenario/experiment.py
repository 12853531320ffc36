"""The checked experiment: a scenario at one scale, with cells whose services and load are typed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from benchkit.document import Document, SourceMap
from benchkit.files import shipped
from benchkit.loadtools.registry import get_tool
from benchkit.models import Scale
from benchkit.models.base import Levels
from benchkit.models.load import Load
from benchkit.scenario.model import LOAD_ROLE, Scenario
from benchkit.scenario.tuning import UsedTuning
from benchkit.services.external import ExternalService
from benchkit.services.profilers import PERF
from benchkit.services.rendering import ServiceSpec


@dataclass(frozen=True)
class Cell:
    """One combination of levels, with the services it deploys and the load it applies."""

    cell_id: str
    levels: Levels
    entry: str
    """Name of the service that the load goes to."""
    services: tuple[ServiceSpec, ...]
    load: Load
    load_source: SourceMap = field(compare=False, repr=False)
    """Lines of the load in the scenario, for messages."""
    external: tuple[ExternalService, ...] = ()
    """Its services that are there already."""

    def service(self, name: str) -> ServiceSpec:
        """Return the service of that name."""
        return next(service for service in self.services if service.name == name)


@dataclass(frozen=True)
class Experiment:
    """A scenario at one scale, checked as far as that is possible without hosts."""

    scenario: Scenario
    scale: Scale
    cells: tuple[Cell, ...]
    tuning: tuple[UsedTuning, ...]
    """Tuning profiles, of all cells and of levels."""
    document: Document
    """The scenario as written, scale and settings applied: stored with a run, and the basis of variations."""
    settings: tuple[str, ...] = ()
    """Values of `--set`."""

    @property
    def reference(self) -> str | None:
        """Name or file by which other commands find it; None: it is made of options of the command line."""
        origin = self.document.source.origin()
        if origin.is_option:
            return None
        return self.scenario.name if Path(origin.source).parent == shipped("scenarios") else origin.source

    @property
    def install_hint(self) -> str:
        """Hint at the installation of a program on a host, for messages."""
        if self.reference is None:
            return "install it there"
        return f"`benchkit hosts prepare {self.reference}` installs it where permitted"

    @property
    def baseline(self) -> str:
        """Name of the cell that ratios are taken to."""
        levels = self.scenario.baseline
        if levels is None:
            return self.cells[0].cell_id
        return next(cell.cell_id for cell in self.cells if levels.items() <= cell.levels.items())

    @property
    def run_tuning(self) -> tuple[UsedTuning, ...]:
        """Profiles that hold for the whole run."""
        return tuple(used for used in self.tuning if not used.levels)

    def cell_tuning(self, levels: Levels) -> tuple[UsedTuning, ...]:
        """Return the profiles that hold only for trials of the cells with these levels, over those of the run."""
        return tuple(used for used in self.tuning if used.levels and used.levels.items() <= levels.items())

    def requires_tuning(self, levels: Levels) -> bool:
        """Return whether a setting that cannot be applied for the cells with these levels stops the run."""
        return any(used.use.required for used in self.cell_tuning(levels))

    @property
    def controlled(self) -> tuple[str, ...]:
        """Names of the cells that have a control."""
        return tuple(cell.cell_id for cell in self.cells if self.scenario.has_control(cell.levels))


def needed_programs(experiment: Experiment) -> dict[str, set[str]]:
    """Return the programs that the hosts of each role need: for services, load tools and profilers."""
    needed: defaultdict[str, set[str]] = defaultdict(set)
    profile = experiment.scenario.profile
    for cell in experiment.cells:
        if (program := load_program(cell.load.tool)) is not None:
            needed[LOAD_ROLE].add(program)
        for service in cell.services:
            programs = needed[service.options.role]
            programs.update(service.programs)
            if profile is not None and profile.includes(service.name) and not service.backend.has_own_profiler:
                programs.add(PERF)
    return dict(needed)


def load_program(tool: str) -> str | None:
    """Return the program that a load host must have for a tool; None if benchkit builds the tool."""
    return get_tool(tool).required_program
