"""Values for shell completion: scenarios, runs, scales, metrics, load tools.

What cannot be read completes to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.errors import BenchkitError


def _starting_with(incomplete: str, values: Iterable[str]) -> list[str]:
    return [value for value in values if value.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    """Return the shipped scenarios and the YAML files here that begin so."""
    from pathlib import Path

    from benchkit.files import shipped

    names = sorted(file.stem for file in shipped("scenarios").glob("*.yaml"))
    return _starting_with(incomplete, [*names, *sorted(str(file) for file in Path().glob("*.y*ml"))])


def complete_run(incomplete: str) -> list[str]:
    """Return the runs of the default store that begin so, newest first, and `latest`."""
    from benchkit.store.store import Store, store_path

    try:
        runs = [run.run_id for run in Store(store_path()).runs()]
    except (BenchkitError, OSError):  # completion has nowhere to report an unreadable store
        return []
    return _starting_with(incomplete, ["latest", *reversed(runs)])


def complete_lab(incomplete: str) -> list[str]:
    """Return the labs on this machine that begin so."""
    from benchkit.lab.lab import lab_names

    try:
        return _starting_with(incomplete, lab_names())
    except OSError:  # likewise
        return []


def complete_scale(incomplete: str) -> list[str]:
    """Return the scales that begin so."""
    from typing import get_args

    from benchkit.models import Scale

    return _starting_with(incomplete, get_args(Scale))


def complete_metric(incomplete: str) -> list[str]:
    """Return the metrics of trials that begin so."""
    from benchkit.models.metrics import METRICS

    return _starting_with(incomplete, METRICS)


def complete_load_tool(incomplete: str) -> list[str]:
    """Return the load tools that begin so."""
    from benchkit.loadtools.registry import TOOLS

    return _starting_with(incomplete, TOOLS)


def complete_part(incomplete: str) -> list[str]:
    """Return the parts of scenarios and inventories that begin so."""
    from benchkit.scenario.fields import parts

    return _starting_with(incomplete, parts())
