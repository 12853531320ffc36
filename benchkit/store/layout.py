"""The paths of files from the folder of a store. Pure."""

from __future__ import annotations

Partition = tuple[str, str]
"""A run's part of a table: (scenario, run_id)."""

MANIFEST, JOURNAL, LOG, LOCK, REPORT = "manifest.json", "journal.jsonl", "run.log", ".lock", "report"


def manifest_path(run_id: str) -> str:
    """Return the path of a run's manifest from the folder of the store."""
    return f"runs/{run_id}/{MANIFEST}"


def table_path(table: str, scenario: str | None) -> str:
    """Return the beginning of the paths of a table from the folder of the store, of one scenario or of all (None)."""
    return f"tables/{table}/" + (f"scenario={scenario}/" if scenario is not None else "")


def part_of(path: str) -> Partition:
    """Return scenario and run of the path of a table's file from the folder of the store."""
    _, _, scenario, run_id, _ = path.split("/")
    return scenario.removeprefix("scenario="), run_id.removeprefix("run_id=")
