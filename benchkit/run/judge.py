"""Stored runs judged: each trial when it has ended, a run when all of its trials have, and old runs anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.checks.cold import first_over_last
from benchkit.analysis.verdicts.core_speed import server_loop_s
from benchkit.analysis.verdicts.evidence import Evidence, Facts, RunEvidence, requested_metrics
from benchkit.analysis.verdicts.exclusions import exclusions_from_findings
from benchkit.analysis.verdicts.judge import Judgement, judge_run, judge_trial, verdict_of
from benchkit.analysis.verdicts.trial_telemetry import TrialTelemetry
from benchkit.models.run import Manifest
from benchkit.models.thresholds import thresholds_of
from benchkit.models.trial import TrialRecord
from benchkit.results import reparse as results
from benchkit.results.journal_events import HostFactsRead
from benchkit.results.reparse import TrialTables
from benchkit.results.rows import Columns, Row
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables, load

GROUND = ("start", "tuned")
"""The stages of a run whose facts are those under which all of its trials ran, later ones over earlier ones."""

BLOCK = re.compile(r"block ([0-9]+)")
"""The stages whose facts are those under which the trials of one block ran."""


class Judge:
    """Judges the trials of one run, one by one."""

    def __init__(self, manifest: Manifest) -> None:
        """Take the run's manifest, which has the facts of its hosts at the start."""
        self._manifest = manifest
        self._thresholds = thresholds_of(manifest)
        self._asked = requested_metrics(manifest.scenario)
        self._facts: dict[str, Facts] = {host.name: host.facts for host in manifest.hosts}
        self._in_block: dict[int, dict[str, Facts]] = {}
        self._exclusions: list[Exclusion] = []

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Of the trials judged so far, those that do not count, for which metrics, and why."""
        return tuple(self._exclusions)

    def learn(self, host: str, stage: str, facts: Mapping[str, Any]) -> None:
        """Take in what a host was found to be at a stage of the run."""
        block = BLOCK.fullmatch(stage)
        if block is not None:
            self._in_block.setdefault(int(block[1]), {})[host] = facts
        elif stage in GROUND:
            self._facts[host] = _over(self._facts.get(host, {}), facts)

    def judge(self, record: TrialRecord, tables: TrialTables) -> Judgement:
        """What a trial shows by itself, from its record and its rows."""
        return judge_trial(self._evidence(record, tables), self._thresholds)

    def _evidence(self, record: TrialRecord, tables: TrialTables) -> Evidence:
        (row,) = table_rows(tables, "trials")
        return Evidence(
            record=record,
            row=row,
            telemetry=TrialTelemetry(_columns(tables.get("telemetry"))),
            facts=self._ground(record.block),
            notes={str(note["code"]): str(note["message"]) for note in table_rows(tables, "notes")},
            requested_metrics=self._asked,
            scenario=self._manifest.scenario,
            controller=self._manifest.controller,
        )

    def _ground(self, block: int) -> Mapping[str, Facts]:
        """The facts of all hosts as they were in a block."""
        looked = self._in_block.get(block, {})
        return {host: _over(facts, looked.get(host, {})) for host, facts in self._facts.items()}

    def judged(self, record: TrialRecord, tables: TrialTables) -> TrialTables:
        """The rows of a trial with its verdict, the reasons for it, what could not be checked, and what checks of runs take."""
        evidence = self._evidence(record, tables)
        judgement = judge_trial(evidence, self._thresholds)
        settled = {"rate_first_over_last": first_over_last(evidence), "server_loop_s": server_loop_s(evidence)}
        self._exclusions += exclusions_from_findings(
            (record.trial_id, each.check, each.finding.metrics) for each in judgement.invalid
        )
        return {
            **tables,
            "trials": [{**row, **settled, "verdict": judgement.verdict} for row in table_rows(tables, "trials")],
            "verdicts": judgement.verdict_rows(record.trial_id, "trial"),
            "unchecked": judgement.unchecked_rows(record.trial_id, "trial"),
        }


def judge_stored_run(store: Store, run: RunFolder) -> None:
    """Judge the trials of a stored run beside each other, and give every trial its verdict in the end.

    What trials show by themselves stays as it is; doing it again changes nothing.
    """
    manifest = run.manifest()
    frames = (load(table, store=store.path, run_id=run.run_id) for table in ("trials", "hosts"))
    judgements = judge_run(RunEvidence(manifest, *frames))
    tables = RunTables(store, str(manifest.scenario["name"]), run.run_id)
    found = {
        "verdicts": [row for trial, each in judgements.items() for row in each.verdict_rows(trial, "run")],
        "unchecked": [row for trial, each in judgements.items() for row in each.unchecked_rows(trial, "run")],
    }
    for table, rows in found.items():
        known = tables.rows(table)
        tables.replace(table, known.filter(pc.equal(known["scope"], "trial")), rows)
    tables.replace("trials", _with_verdicts(tables.rows("trials"), tables.rows("verdicts")))


def rebuild_tables(store: Store, run: RunFolder, judge: Judge | None = None) -> int:
    """Rebuild all tables of a run from its raw files alone, verdicts included; the number of trials.

    A `judge` that is given knows the trials then, as if it had been there.
    """
    store.tidy()
    judge = judge or Judge(run.manifest())
    for event in run.history():
        if isinstance(event, HostFactsRead):
            judge.learn(event.host, event.stage, event.facts)
    trials = results.reparse(store, run, judge.judged)
    judge_stored_run(store, run)
    return trials


def _with_verdicts(trials: pa.Table, verdicts: pa.Table) -> pa.Table:
    """The trials, each with the worst of its severities; those that were never judged have none."""
    severities: dict[str, list[str]] = {}
    for trial_id, severity in zip(verdicts["trial_id"].to_pylist(), verdicts["severity"].to_pylist(), strict=True):
        severities.setdefault(trial_id, []).append(severity)
    judged = [
        verdict_of(severities.get(trial_id, ())) if was is not None or trial_id in severities else None
        for trial_id, was in zip(trials["trial_id"].to_pylist(), trials["verdict"].to_pylist(), strict=True)
    ]
    place = trials.schema.get_field_index("verdict")
    return trials.set_column(place, trials.schema.field(place), pa.array(judged, pa.string()))


def _over(facts: Facts, later: Facts) -> Facts:
    """Facts with those found later laid over them; kernel settings one by one."""
    sysctls = {**(facts.get("sysctls") or {}), **(later.get("sysctls") or {})}
    return {**facts, **later, "sysctls": sysctls}


def table_rows(tables: TrialTables, table: str) -> list[Row]:
    """The rows of a table that has few."""
    rows = tables.get(table, [])
    if not isinstance(rows, list):
        raise TypeError(f"{table} comes as rows")
    return rows


def _columns(rows: list[Row] | Columns | None) -> Columns | None:
    """Rows as columns."""
    if not isinstance(rows, list):
        return rows
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else None
