"""All tables of a run rebuilt from its raw files alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchkit.models.rows import FactorRow, HostRow
from benchkit.models.trial import TrialRecord
from benchkit.results.progress import read_progress
from benchkit.results.row_builders import factor_rows, host_rows_of
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.results.trial_tables import (
    TRIAL_TABLES,
    TrialTables,
    build_trial_tables,
    merge_outputs,
    read_generators,
)

JudgeTrial = Callable[[TrialRecord, TrialTables], TrialTables]
"""Function that adds the verdict of a trial to its rows."""


def _unjudged(_record: TrialRecord, tables: TrialTables) -> TrialTables:
    return tables


def reparse(store: Store, run: RunFolder, judge: JudgeTrial = _unjudged) -> int:
    """Rebuild all tables of a run from its raw files alone, and return the number of trials."""
    manifest = run.manifest()
    tables = RunTables(store, str(manifest.scenario["name"]), run.run_id)
    interrupted = read_progress(run.history()).interrupted
    trials = [
        judge(record, _read_trial(run, record, interrupted=record.trial_id in interrupted)).by_table()
        for record in run.records()
    ]
    for table in TRIAL_TABLES:
        tables.replace(table, *(trial[table] for trial in trials))
    tables.replace(FactorRow.TABLE, factor_rows(manifest.cells))
    tables.replace(HostRow.TABLE, host_rows_of(run.history()))
    return len(trials)


def _read_trial(run: RunFolder, record: TrialRecord, *, interrupted: bool) -> TrialTables:
    raw = partial(run.raw_file, record.trial_id)
    output = merge_outputs(record, read_generators(record, raw))
    return build_trial_tables(record, output, raw, interrupted=interrupted)
