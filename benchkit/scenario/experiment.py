"""The validated experiment: a scenario at one scale, with its cells typed and its tuning read.

A tuning is a named set of kernel settings, from `configs/tuning/` or from a file in the scenario's folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.document import Document, SourceMap, read_document
from benchkit.errors import InputError, raise_faults, suggestion
from benchkit.files import shipped
from benchkit.loadtools.registry import get_tool
from benchkit.models import Scale
from benchkit.models.base import Frozen, Level, Levels, level_text
from benchkit.models.load import Load
from benchkit.scenario.model import LOAD_ROLE, NO_TUNING, Scenario, TuningUse
from benchkit.services.external import ExternalService
from benchkit.services.rendering import ServiceSpec
from benchkit.services.service import BPFTRACE, PERF
from benchkit.validation import Location

SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+$")]
SysctlValue = (
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+( [\w.-]+)*$")]
)


COMMAND_LINE = "the command line"
"""Source of scenarios that are made of options, in messages."""


class Limits(Frozen):
    """Limits of the processes that benchkit starts on the host; other processes keep theirs."""

    nofile: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="open files; absent: the limit of the host", examples=[65536]
    )


class Tuning(Frozen):
    """Kernel settings by their sysctl names, and limits of processes."""

    description: str = Field(
        description="what the settings are for, and their source", examples=["More connections at once"]
    )
    sysctl: Mapping[SysctlKey, SysctlValue] = Field(
        default_factory=dict, description="kernel settings by name", examples=[{"net.core.somaxconn": 4096}]
    )
    limits: Limits = Field(
        default=Limits(), description="limits of the processes that benchkit starts", examples=[{"nofile": 65536}]
    )


@dataclass(frozen=True)
class UsedTuning:
    """A tuning file as a scenario uses it."""

    use: TuningUse
    settings: Tuning
    source: SourceMap
    """Lines of the file, for messages."""
    levels: Levels = field(default_factory=dict)
    """Level of the cells that it is applied for; empty: it holds for the whole run."""


def read_tunings(scenario: Scenario, document: Document) -> tuple[UsedTuning, ...]:
    """Read the tuning files that a scenario uses, levels of its factors included.

    Raises InputError, naming file, line and field, for tunings and roles that do not exist, and for invalid files.
    """
    tunings: list[UsedTuning] = []
    faults: list[str] = []
    for i, use in enumerate(scenario.tuning):
        for location, name, levels in _tuning_names(i, use, scenario):
            try:
                tunings.append(_read_tuning(location, name, use, levels, document))
            except InputError as error:
                faults.append(str(error))
        faults += [
            document.fault(("tuning", i, "roles"), f"no role {role!r}; {suggestion(role, scenario.roles)}")
            for role in use.roles
            if role not in scenario.roles
        ]
    raise_faults(faults)
    return tuple(tunings)


def _tuning_names(i: int, use: TuningUse, scenario: Scenario) -> Iterator[tuple[Location, Level, Levels]]:
    if use.factor is None:
        yield ("tuning", i, "profile"), use.profile, {}
        return
    for j, level in enumerate(scenario.factors[use.factor]):
        if level != NO_TUNING:
            yield ("factors", use.factor, j), level, {use.factor: level}


def _read_tuning(location: Location, name: Level, use: TuningUse, levels: Levels, document: Document) -> UsedTuning:
    folder = shipped("configs") / "tuning"
    if isinstance(name, str) and name.endswith((".yaml", ".yml")):
        path = document.source.file(name, *location)
        if not path.is_file():
            raise InputError(document.fault(location, f"no file {path}"))
    else:
        names = sorted(file.stem for file in folder.glob("*.yaml"))
        if name not in names:
            message = f"no tuning {level_text(name)!r}; {suggestion(level_text(name), names)}"
            raise InputError(document.fault(location, message), hint="name a file of your own with its suffix .yaml")
        path = folder / f"{name}.yaml"
    file = read_document(path)
    return UsedTuning(use, file.validated(Tuning), file.source, levels)


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
    """Its services that others deploy."""

    def service(self, name: str) -> ServiceSpec:
        """Return the service of that name."""
        return next(service for service in self.services if service.name == name)


@dataclass(frozen=True)
class Experiment:
    """A scenario at one scale, validated as far as that is possible without hosts."""

    scenario: Scenario
    scale: Scale
    cells: tuple[Cell, ...]
    tuning: tuple[UsedTuning, ...]
    """Tuning files of the whole run, and of levels."""
    document: Document
    """The scenario as written, scale and settings applied: stored with a run, and the basis of variations."""
    settings: tuple[str, ...] = ()
    """Values of `--set`."""

    @property
    def reference(self) -> str | None:
        """Name or file by which other commands find it; None: it is made of options of the command line."""
        source = self.document.source.origin().source
        if source == COMMAND_LINE:
            return None
        return self.scenario.name if Path(source).parent == shipped("scenarios") else source

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
        """Tuning files that hold for the whole run."""
        return tuple(used for used in self.tuning if not used.levels)

    def cell_tuning(self, levels: Levels) -> tuple[UsedTuning, ...]:
        """Return the tuning files that override the run's in trials of the cells with these levels."""
        return tuple(used for used in self.tuning if used.levels and used.levels.items() <= levels.items())

    def requires_tuning(self, levels: Levels) -> bool:
        """Return whether a setting that cannot be applied for the cells with these levels stops the run."""
        return any(used.use.required for used in self.cell_tuning(levels))


def needed_programs(experiment: Experiment, *, optional: bool = True) -> dict[str, set[str]]:
    """Return the programs that the hosts of each role need: for services, load tools and profilers.

    With `optional`, also programs of optional services, which are used where a host has them.
    """
    needed: defaultdict[str, set[str]] = defaultdict(set)
    profile, trace = experiment.scenario.profile, experiment.scenario.trace
    for cell in experiment.cells:
        if (program := get_tool(cell.load.tool).required_program) is not None:
            needed[LOAD_ROLE].add(program)
        for service in cell.services:
            programs = needed[service.options.role]
            if optional or not service.options.optional:
                programs.update(service.programs)
            if profile is not None and profile.includes(service.name) and not service.backend.has_own_profiler:
                programs.add(PERF)
            if trace is not None and trace.includes(service.name):
                programs.add(BPFTRACE)
    return dict(needed)
