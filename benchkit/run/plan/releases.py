"""The releases of Go and Node that a scenario asks for, looked for before anything is built or deployed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchkit.errors import InputError
from benchkit.run.plan.model import PlannedCell
from benchkit.scenario.cell_services import typed_services
from benchkit.scenario.read import Experiment
from benchkit.services.go_server import GoServerOptions
from benchkit.services.go_toolchain import why_no_release
from benchkit.services.node_release import NodeProgram


def check_releases(experiment: Experiment) -> None:
    """Raise InputError, naming file, line and field, for a Go release that cannot be had."""
    if faults := list(dict.fromkeys(_faults(experiment))):
        raise InputError("\n".join(faults))


def check_node_releases(cells: Iterable[PlannedCell]) -> None:
    """Get the releases of Node for the hosts of the cells. Raises InputError, naming file, line and field, where that fails."""
    if faults := list(dict.fromkeys(_node_faults(cells))):
        raise InputError("\n".join(faults))


def _node_faults(cells: Iterable[PlannedCell]) -> Iterator[str]:
    for cell in cells:
        for service in cell.services:
            for file in service.files:
                if isinstance(file.content, NodeProgram):
                    try:
                        file.content.path()
                    except InputError as error:
                        said = ": ".join(filter(None, (error.what, error.why)))
                        yield cell.cell.services.fault((service.name, "node_version"), said)


def _faults(experiment: Experiment) -> Iterator[str]:
    for cell in experiment.cells:
        for service in typed_services(cell, experiment.scenario):
            release = service.options.go_version if isinstance(service.options, GoServerOptions) else None
            if release is not None and (why := why_no_release(release)):
                yield service.document.fault(("go_version",), f"found {release!r}; there is no such release: {why}")
