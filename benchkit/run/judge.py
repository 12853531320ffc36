"""Verdicts on trials: on each when it ends, on all together when the run ends, and again from raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.comparison.components import components_of
from benchkit.comparison.runs.run_data import run_data_from_tables
from benchkit.errors import ParseError
from benchkit.judge.checks.between_trials import first_over_last
from benchkit.judge.checks.disturbances import foreign_share
from benchkit.judge.cpu_time import server_loop_s, stolen_share, withheld_share
from benchkit.judge.evidence import Evidence, RunEvidence, TrialTelemetry, requested_metrics
from benchkit.judge.run_differences import BLOCK_STAGE, RUN_STAGES
from benchkit.judge.sliced_blocks import neighbour_share
from benchkit.judge.usage import handshakes, handshakes_per_s, server_cpu_s_per_handshake
from benchkit.judge.verdicts import exclusions_from_findings, judge_run, judge_trial, verdict_of
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import ComponentRow, FactorRow, HostRow, Row, TrialRow
from benchkit.models.run import Manifest
from benchkit.models.thresholds import thresholds_of
from benchkit.models.trial import TrialRecord
from benchkit.stats.samples import Exclusion
from benchkit.store.journal import HostFactsRead, read_progress
from benchkit.store.parquet_files import arrow_table, concat_rows
from benchkit.store.row_builders import factor_rows, host_rows_of
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from benchkit.store.trial_tables import TRIAL_TABLES, TrialTables, build_trial_tables, read_output
from benchkit.store.verification import read_checksums, require_unchanged, write_checksums

ContentByTable = Mapping[str, pa.Table]
"""Rows by the name of their table."""


class Judge:
    """Judge of the trials of one run, one at a time."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._thresholds = thresholds_of(manifest)
        self._requested_metrics = requested_metrics(manifest.scenario)
        self._facts: dict[str, RecordedFacts] = {host.name: host.facts for host in manifest.hosts}
        self._cell_sysctls = {cell.cell_id: cell.sysctls for cell in manifest.cells}
        self._facts_in_block: dict[int, dict[str, RecordedFacts]] = {}
        self._exclusions: list[Exclusion] = []

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Exclusions of the trials judged so far."""
        return tuple(self._exclusions)

    def add_host_facts(self, host: str, stage: str, facts: RecordedFacts) -> None:
        """Add the facts of a host at a stage of the run."""
        block = BLOCK_STAGE.fullmatch(stage)
        if block is not None:
            self._facts_in_block.setdefault(int(block[1]), {})[host] = facts
        elif stage in RUN_STAGES:
            self._facts[host] = self._facts.get(host, RecordedFacts()).updated(facts)

    def add_verdict(self, record: TrialRecord, tables: TrialTables) -> TrialTables:
        """Return the rows of a trial with its verdict, findings, skipped checks, and values for checks of runs."""
        in_block = self._facts_in_block.get(record.block, {})
        of_cell = self._cell_sysctls.get(record.cell_id, {})
        evidence = Evidence(
            record=record,
            row=tables.trial,
            slices=tables.slices,
            classes=tables.classes,
            telemetry=TrialTelemetry(tables.telemetry),
            facts={
                host: facts.updated(in_block.get(host, RecordedFacts())).updated(
                    RecordedFacts(sysctls=of_cell.get(host, {}))
                )
                for host, facts in self._facts.items()
            },
            notes={note.code: note.message for note in tables.notes},
            requested_metrics=self._requested_metrics,
            scenario=self._manifest.scenario,
            controller=self._manifest.controller,
        )
        judgement = judge_trial(evidence, self._thresholds)
        self._exclusions += exclusions_from_findings(judgement.invalid)
        resumed = handshakes(evidence)
        trial = replace(
            tables.trial,
            rate_first_over_last=first_over_last(evidence),
            server_loop_s=server_loop_s(evidence),
            foreign_share=foreign_share(evidence),
            stolen_share=stolen_share(evidence),
            withheld_share=withheld_share(evidence),
            neighbour_share=neighbour_share(record),
            other_program=next((each.title for each in record.other_programs), None),
            other_program_cores=next((each.cores for each in record.other_programs), None),
            resumed_share=None if resumed is None else resumed.resumed_share,
            handshakes_per_s=handshakes_per_s(evidence),
            server_cpu_s_per_handshake=server_cpu_s_per_handshake(evidence),
            verdict=judgement.verdict,
        )
        return replace(tables, trial=trial, verdicts=judgement.verdicts, unchecked=judgement.unchecked)


def judge_stored_run(store: Store, run: RunFolder) -> None:
    """Judge the trials of a stored run together, and store the final verdict of each.

    The findings of single trials stay unchanged. Idempotent.
    """
    manifest = run.manifest()
    tables = RunTables(store, manifest.scenario_name, run.run_id)
    read = ("trials", "hosts", "slices", "load_curve", "verdicts", "unchecked")
    stored = {table: tables.rows(table) for table in (*read, "telemetry", "profile", "profile_share", "trace")}
    for table, rows in judge_together(manifest, stored, run).items():
        tables.replace(table, rows)


def judge_together(manifest: Manifest, tables: ContentByTable, run: RunFolder) -> ContentByTable:
    """Judge the trials of a run together; return the tables that result: verdicts, unchecked, trials, components."""
    evidence = RunEvidence(manifest, *(tables[name].to_pandas() for name in ("trials", "hosts", "slices")))
    judgement = judge_run(evidence)
    rows_of_run: dict[str, Sequence[Row]] = {"verdicts": judgement.verdicts, "unchecked": judgement.unchecked}
    judged = {
        table: pa.concat_tables(
            [tables[table].filter(pc.equal(tables[table]["scope"], "trial")), arrow_table(table, rows)]
        )
        for table, rows in rows_of_run.items()
    }
    final = {**judged, "trials": _replace_verdicts(tables["trials"], judged["verdicts"])}
    return {**final, ComponentRow.TABLE: _component_rows(manifest, {**tables, **final}, run)}


def _component_rows(manifest: Manifest, tables: ContentByTable, run: RunFolder) -> pa.Table:
    """Return the components of the run's ratios; none without CPU times."""
    frame = cache(lambda table: tables[table].to_pandas())
    data = run_data_from_tables(manifest, frame("trials"), frame("verdicts"), table=frame, folder=run)
    found = components_of(data) if manifest.cells else ()
    return arrow_table(ComponentRow.TABLE, [ComponentRow(**each.model_dump()) for each in found])


def _replace_verdicts(trials: pa.Table, verdicts: pa.Table) -> pa.Table:
    """Return the trials, each with its worst severity as verdict; a trial that was not judged has none."""
    severities: dict[str, list[str]] = {}
    for trial_id, severity in zip(verdicts["trial_id"].to_pylist(), verdicts["severity"].to_pylist(), strict=True):
        severities.setdefault(trial_id, []).append(severity)
    final = [
        verdict_of(severities.get(trial_id, ())) if before is not None or trial_id in severities else None
        for trial_id, before in zip(trials["trial_id"].to_pylist(), trials["verdict"].to_pylist(), strict=True)
    ]
    column = trials.schema.get_field_index("verdict")
    return trials.set_column(column, trials.schema.field(column), pa.array(final, pa.string()))


def reparse_run(store: Store, run: RunFolder) -> int:
    """Lock a run and rebuild its tables; return the number of its trials.

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

    The run must be locked. Readers see the old tables until all trials are judged, by `judge` if one is given. Raises
    InputError, and replaces nothing, where journal or raw files cannot be read.
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
