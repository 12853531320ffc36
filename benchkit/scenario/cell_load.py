"""The load of a cell as a typed model that its tool accepts."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.load.load_shares import objections
from benchkit.load.tools.registry import TOOLS, get_tool
from benchkit.models.load import Load
from benchkit.scenario.experiment import Experiment


def typed_load(document: Document) -> Load:
    """Return the load of a cell, levels filled in. Raises InputError naming file, line and field."""
    tool = document.data.get("tool")
    if isinstance(tool, str) and tool not in TOOLS:
        raise InputError(document.fault(("tool",), f"no load tool {tool!r}; {suggestion(tool, TOOLS)}"))
    return document.validated(Load)


def check_generators(experiment: Experiment, load_hosts: int) -> None:
    """Check that tools can apply each load, divided among the generator processes on `load_hosts` hosts.

    Reading a scenario checks the smallest number of load hosts, planning the actual one if it is larger. This includes
    the load of profile trials. Raises InputError naming file, line and field.
    """
    for faults in (_cell_faults(experiment, load_hosts), _profile_faults(experiment, load_hosts)):
        if messages := list(dict.fromkeys(faults)):
            raise InputError("\n".join(messages))


def _cell_faults(experiment: Experiment, load_hosts: int) -> Iterator[str]:
    for cell in experiment.cells:
        for objection in objections(get_tool(cell.load.tool), cell.load, cell.load.processes * load_hosts):
            yield cell.load_source.fault((objection.field,), objection.why)


def _profile_faults(experiment: Experiment, load_hosts: int) -> Iterator[str]:
    profile = experiment.scenario.profile
    if profile is None:
        return
    for cell in experiment.cells:
        load = profile.load(cell.load)
        for objection in objections(get_tool(load.tool), load, load.processes * load_hosts):
            yield experiment.document.fault(("profile", objection.field), objection.why)
