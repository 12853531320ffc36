"""All tables of a run, built from its journal and raw files by the steps that build them when a trial ends."""

from __future__ import annotations

from functools import partial

from benchkit.errors import ParseError
from benchkit.models.rows import FactorRow, HostRow, TrialRow
from benchkit.run.judge import Judge, judge_together
from benchkit.store.journal import HostFactsRead, read_progress
from benchkit.store.parquet_files import concat_rows
from benchkit.store.row_builders import factor_rows, host_rows_of
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from benchkit.store.trial_tables import TRIAL_TABLES, build_trial_tables, read_output
from benchkit.store.verification import read_checksums, require_unchanged, write_checksums


def reparse_run(store: Store, run: RunFolder) -> int:
    """Build the tables of a run that no other process writes to; return the number of its trials.

    Raises InputError, and replaces nothing, where a raw file is damaged.
    """
    with run.locked():
        require_unchanged(store, run, f"runs/{run.run_id}/raw/")
        trials = rebuild_tables(store, run)
        if read_checksums(store, run) is not None:
            write_checksums(store, run)
        return trials


def rebuild_tables(store: Store, run: RunFolder, judge: Judge | None = None) -> int:
    """Build all tables of a run from its journal and raw files, verdicts included; return the number of its trials.

    The run must be locked. Readers see the old tables until all trials are judged. A given `judge` judges all of them.
    Raises InputError, and replaces nothing, where journal or raw files cannot be read.
    """
    manifest, history = run.manifest(), list(run.history())
    judge, progress = judge or Judge(manifest), read_progress(history)
    for event in history:
        if isinstance(event, HostFactsRead):
            judge.add_host_facts(event.host, event.stage, event.facts)
    built = []
    for record in run.records():
        raw = partial(run.raw_file, record.trial_id)
        try:
            output = read_output(record, raw)
        except ParseError as error:
            raise ParseError(error.what, where=str(run.raw(record.trial_id)), why=error.why, hint=error.hint) from None
        rows = build_trial_tables(record, output, raw, interrupted=record.trial_id in progress.interrupted)
        built.append(judge.add_verdict(record, rows).by_table())
    content = {table: concat_rows(table, *(trial[table] for trial in built)) for table in TRIAL_TABLES}
    content[HostRow.TABLE] = concat_rows(HostRow.TABLE, host_rows_of(history))
    content |= judge_together(manifest, content, run)
    tables = RunTables(store, manifest.scenario_name, run.run_id)
    tables.replace(FactorRow.TABLE, factor_rows(manifest.cells))
    for table in sorted(content, key=lambda table: table == TrialRow.TABLE):  # verdicts of trials last
        tables.replace(table, content[table])
    return len(built)
