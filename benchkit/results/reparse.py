"""Tables from raw files: what a run writes trial by trial, and `results reparse` writes again."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Literal

from benchkit.load.tools.registry import get_tool
from benchkit.load.tools.text import decode
from benchkit.load.tools.tool import ParsedOutput, ToolOutput
from benchkit.load.trial_result import merge_generator_outputs, read_generator
from benchkit.models.trial import GeneratorRecord, TrialRecord
from benchkit.results.journal_events import HostFactsRead, JournalEvent
from benchkit.results.profile_tables import profile_tables
from benchkit.results.progress import read_progress
from benchkit.results.rows import Columns, Row, factor_rows, host_rows, latency_columns, note_rows, trial_row
from benchkit.results.schema import TABLES
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.results.telemetry_table import telemetry_tables

RawFile = Callable[[str], bytes]
"""The content of a trial's raw file, by its name."""

TrialTables = dict[str, list[Row] | Columns]
"""The rows of a trial, by table."""

Finish = Callable[[TrialRecord, TrialTables], TrialTables]


def read_generators(record: TrialRecord, raw: RawFile) -> tuple[ParsedOutput, ...]:
    """What each generator of a trial measured, from its raw files. Raises ParseError."""
    return tuple(_read(record, generator, raw) for generator in record.generators)


def merge_outputs(record: TrialRecord, readings: Sequence[ParsedOutput]) -> ParsedOutput:
    """What all generators of a trial measured together. Raises InputError where they are of different tools."""
    return merge_generator_outputs(readings, [generator.started_s for generator in record.generators])


def build_trial_tables(record: TrialRecord, reading: ParsedOutput, raw: RawFile, *, split: bool = False) -> TrialTables:
    """The rows of a trial, by table; `split` where its block was cut by a pause and run again."""
    profiles, telemetry = profile_tables(record, raw), telemetry_tables(record, raw)
    return {
        "trials": [trial_row(record, reading.result, split=split)],
        "latency": latency_columns(record.trial_id, reading.measurement),
        "notes": [*note_rows(record.trial_id, reading.result), *profiles["notes"], *telemetry["notes"]],
        "telemetry": telemetry["telemetry"],
        "profile": profiles["profile"],
        "profile_share": profiles["profile_share"],
    }


def reparse(store: Store, run: RunFolder, finish: Finish = lambda _, tables: tables) -> int:
    """Rebuild all tables of a run from its raw files alone; the number of trials.

    `finish` is what becomes of the rows of each trial before they are written.
    """
    manifest = run.manifest()
    tables = RunTables(store, str(manifest.scenario["name"]), run.run_id)
    split = read_progress(run.history()).interrupted
    trials = [finish(record, _tables_of(run, record, split)) for record in run.records()]
    for table in TABLES.keys() - {"factors", "hosts"}:
        tables.replace(table, *(trial[table] for trial in trials if table in trial))
    tables.replace("factors", factor_rows(manifest.cells))
    tables.replace("hosts", *host_parts(run.history()).values())
    return len(trials)


def _read(record: TrialRecord, generator: GeneratorRecord, raw: RawFile) -> ParsedOutput:
    printed = ToolOutput(
        stdout=_text(generator, "stdout", raw),
        stderr=_text(generator, "stderr", raw),
        reduction=raw(generator.files["reduction"]) if "reduction" in generator.files else None,
    )
    return read_generator(get_tool(record.load.tool), generator.load, printed)


def _text(generator: GeneratorRecord, kind: Literal["stdout", "stderr"], raw: RawFile) -> str:
    return decode(raw(generator.files[kind])) if kind in generator.files else ""


def host_parts(history: Iterable[JournalEvent]) -> dict[str, list[Row]]:
    """Return the rows of `hosts` that a journal has, by host and stage; facts read later replace those read before."""
    return {
        f"{event.host}-{event.stage}": host_rows(event.host, event.roles, event.stage, event.facts)
        for event in history
        if isinstance(event, HostFactsRead)
    }


def _tables_of(run: RunFolder, record: TrialRecord, split: Container[str]) -> TrialTables:
    raw = partial(run.raw_file, record.trial_id)
    reading = merge_outputs(record, read_generators(record, raw))
    return build_trial_tables(record, reading, raw, split=record.trial_id in split)
