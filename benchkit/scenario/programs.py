"""The programs that an experiment needs on its hosts."""

from __future__ import annotations

from collections import defaultdict

from benchkit.loadtools.registry import get_tool
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.model import LOAD_ROLE
from benchkit.services.profilers import PERF


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
