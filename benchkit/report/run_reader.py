"""A run of the store, read for its report."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pandas as pd

from benchkit.models.profile import Profile
from benchkit.report.stored_run import StoredRun
from benchkit.results.merged_profile import read_merged_profile
from benchkit.results.progress import read_progress
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import load, load_columns

TELEMETRY = ("trial_id", "host", "service", "instance", "t_s", "metric", "value")
"""Columns of `telemetry` that figures and tables of reports are made of."""


def read_run(store: Store, run: RunFolder) -> StoredRun:
    """The manifest and tables of a run. Raises InputError for what a newer benchkit wrote."""
    return StoredRun(
        manifest=run.manifest(),
        trials=load("trials", store=store.path, run_id=run.run_id),
        hosts=load("hosts", store=store.path, run_id=run.run_id),
        notes=load("notes", store=store.path, run_id=run.run_id),
        table=partial(_table, store.path, run.run_id),
        progress=read_progress(run.history()),
        stacks=cache(partial(_stacks, run)),
    )


def _table(store: Path, run_id: str, table: str) -> pd.DataFrame:
    if table == "telemetry":  # of which there may be a million rows
        return load_columns(table, TELEMETRY, store=store, run_id=run_id)
    return load(table, store=store, run_id=run_id)


def _stacks(run: RunFolder, trials: tuple[str, ...], service: str) -> Profile | None:
    """The profiles of a service in these trials as one; None where raw files were left out of the store."""
    if not all(run.raw(trial_id).is_dir() for trial_id in trials):
        return None
    return read_merged_profile(run, map(run.record, trials), service)
