"""The Go releases that a scenario asks for, looked up before anything is built or deployed."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.errors import InputError
from benchkit.scenario.read import Experiment
from benchkit.stack.goserver import GoServerOptions
from benchkit.stack.gotool import why_no_release
from benchkit.stack.plan import typed_services


def check_releases(experiment: Experiment) -> None:
    """Raise InputError, naming file, line and field, for a Go release that cannot be had."""
    if faults := list(dict.fromkeys(_faults(experiment))):
        raise InputError("\n".join(faults))


def _faults(experiment: Experiment) -> Iterator[str]:
    for cell in experiment.cells:
        for service in typed_services(cell, experiment.scenario):
            release = service.options.go_version if isinstance(service.options, GoServerOptions) else None
            if release is not None and (why := why_no_release(release)):
                yield service.document.fault(("go_version",), f"found {release!r}; there is no such release: {why}")
