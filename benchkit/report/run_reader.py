"""Reader of a stored run for its report."""

from __future__ import annotations

from functools import cache, partial

import pandas as pd

from benchkit.models.profile import Profile
from benchkit.report.stored_run import StoredRun
from benchkit.store.profile_tables import read_merged_profile
from benchkit.store.progress import read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load, load_columns, load_trials

TELEMETRY = ("trial_id", "host", "service", "instance", "t_s", "metric", "value")
"""Columns of `telemetry` that reports use."""


def read_run(store: Store, run: RunFolder) -> StoredRun:
    """Return a run with its manifest and tables. Raises InputError if it is damaged or a newer benchkit wrote it."""
    manifest, trials = load_trials(run, store)
    return StoredRun(
        manifest=manifest,
        trials=trials,
        hosts=load("hosts", store=store, run_id=run.run_id),
        notes=load("notes", store=store, run_id=run.run_id),
        table=partial(_read_table, store, run.run_id),
        progress=read_progress(run.history()),
        merged_profile=cache(partial(_read_profile, run)),
    )


def _read_table(store: Store, run_id: str, table: str) -> pd.DataFrame:
    if table == "telemetry":  # may have a million rows
        return load_columns(table, TELEMETRY, store=store, run_id=run_id)
    return load(table, store=store, run_id=run_id)


def _read_profile(run: RunFolder, trials: tuple[str, ...], service: str) -> Profile | None:
    """Return the merged profile of a service in these trials, or None if the store has no raw files of them."""
    if not all(run.raw_file_names(trial_id) for trial_id in trials):
        return None
    return read_merged_profile(run, map(run.record, trials), service)
