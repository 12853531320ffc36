"""Table of every trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.notes import latency_note
from benchkit.judge.verdicts.summary import checks_by_trial, verdict_label
from benchkit.models.design import control_of
from benchkit.models.metrics import P50, P99, PERCENTILES
from benchkit.report.metric_values import numbers
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import errors
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.units import ABSENT

_LATENCY = "latency"


@dataclass(frozen=True)
class _Measure:
    """A numeric column of the table; `always` shows it even if no trial has a value."""

    title: str
    source: str | Callable[[pd.DataFrame], pd.Series[float]]
    text: Callable[[float | None], str]
    unit: str = ""
    group: str = ""
    always: bool = False

    def values(self, trials: pd.DataFrame) -> pd.Series[float]:
        return numbers(trials[self.source]) if isinstance(self.source, str) else self.source(trials)


_MEASURES = (
    _Measure("RPS", "rps", units.rate, "requests/s", always=True),
    _Measure("Errors", errors, units.count, always=True),
    _Measure("Non-2xx", "non_2xx", units.count, always=True),
    _Measure("mean", "latency_mean_s", units.seconds, "s", _LATENCY),
    *(
        _Measure(p.label, p.name, units.seconds, "s", _LATENCY, always=p.name in {P50, P99})
        for p in PERCENTILES.values()
    ),
    _Measure("max", "latency_max_s", units.seconds, "s", _LATENCY, always=True),
    _Measure("Requests", "requests", units.count, always=True),
    _Measure("Received", "bytes_per_s", units.bytes_per_s, "bytes/s"),
    _Measure("Target rate", "rate_requested", units.rate, "requests/s"),
    _Measure("Server CPU per request", "server_cpu_s_per_request", units.seconds, "s"),
    _Measure("Server memory", "server_memory_bytes", units.size, "B"),
    _Measure("Context switches per request", "server_switches_per_request", units.ratio),
    _Measure("TLS handshakes", "handshakes_per_s", units.rate, "1/s"),
    _Measure("Resumed", "resumed_share", units.share),
    _Measure("Server CPU per handshake", "server_cpu_s_per_handshake", units.seconds, "s"),
    _Measure("Window", "duration_s", units.seconds, "s", always=True),
    _Measure("Overhead", "overhead_s", units.seconds, "s", always=True),
)


@dataclass(frozen=True)
class TrialsContent:
    """The table, and the note on its latencies."""

    table: Table
    latency_note: str


def build(material: Material) -> TrialsContent | None:
    """Return the table; None if no trial ended."""
    run = material.run
    return None if run.trials.empty else TrialsContent(_trial_table(run), latency_note(run.trials))


SECTION = Section("trials", "Every trial", "trials.html.j2", build)


def _trial_table(run: StoredRun) -> Table:
    """Return all ended trials in the order in which they ran; columns without a value are omitted."""
    trials = run.trials.sort_values(["block", "position", "trial_id"], kind="stable")
    columns = [
        (Column("Block", "number"), _counts(trials["block"])),
        (Column("Position", "number"), _counts(trials["position"])),
        (Column("Cell", "name"), _cells(run, trials["cell_id"])),
        *((Column(title), _texts(trials[name])) for title, name in _words(trials)),
        *([(Column("Verdict", "prose"), _verdicts(run, trials))] if trials["verdict"].notna().any() else []),
    ]
    latency = f"Latency ({latency_note(trials)})"
    for measure in _MEASURES:
        values = measure.values(trials)
        if measure.always or values.notna().any():
            group = latency if measure.group else ""
            column = Column(measure.title, "number", group, measure.unit)
            columns.append((column, [number(value, measure.text) for value in values]))
    columns += [
        _started(trials["started_at"]),
        (Column("Trial"), _short_ids(run, trials["trial_id"])),
    ]
    return Table(
        name="trials",
        caption="Every trial that ended, in the order in which they ran",
        columns=tuple(column for column, _ in columns),
        rows=tuple(zip(*(entries for _, entries in columns), strict=True)),
    )


def _words(trials: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the columns of words that differ between trials, and those of the protocol where any has TLS or HTTP/2."""
    differing = [("Kind", "kind"), ("Tool", "tool"), ("Corrected", "latency_corrected"), ("Covers", "latency_covers")]
    protocol = [("Protocol", "protocol"), ("TLS", "tls_version"), ("Cipher", "cipher")]
    return [
        *((title, name) for title, name in differing if len(trials[name].drop_duplicates()) > 1),
        *((title, name) for title, name in protocol if set(trials[name].dropna()) - {"http1"}),
    ]


def _verdicts(run: StoredRun, trials: pd.DataFrame) -> list[Entry]:
    """Return the verdict on each trial, with its checks."""
    checks = checks_by_trial(run.verdicts)
    return [
        Entry(ABSENT if pd.isna(verdict) else verdict_label(verdict, checks.get(str(trial_id), ())))
        for verdict, trial_id in zip(trials["verdict"], trials["trial_id"], strict=True)
    ]


def _cells(run: StoredRun, column: pd.Series) -> list[Entry]:
    """Return the cells by their labels, sorting in the order of the plan, each before its control."""
    views = {view.cell_id: (view.label, float(i)) for i, view in enumerate(run.cells)}
    views |= {control_of(name): (f"{label} (control)", place + 0.5) for name, (label, place) in views.items()}
    return [Entry(*views[str(cell_id)]) for cell_id in column]


def _counts(column: pd.Series) -> list[Entry]:
    return [number(value, units.count) for value in numbers(column)]


def _texts(column: pd.Series) -> list[Entry]:
    return [Entry(ABSENT if pd.isna(value) else str(value)) for value in column]


def _short_ids(run: StoredRun, column: pd.Series) -> list[Entry]:
    """Return the ids of trials without the run id that all of them begin with."""
    prefix = f"{run.manifest.run_id}."
    return [Entry(str(trial_id).removeprefix(prefix)) for trial_id in column]


def _started(column: pd.Series) -> tuple[Column, list[Entry]]:
    """Return the start of each trial; a date that all share is in the heading."""
    times = column.dt.tz_convert("UTC")
    dates = times.dt.strftime("%Y-%m-%d").unique()
    is_one_day = len(dates) == 1
    texts = times.dt.strftime("%H:%M:%S" if is_one_day else "%Y-%m-%d %H:%M:%S")
    return Column(f"Started (UTC, {dates[0]})" if is_one_day else "Started (UTC)"), [Entry(str(text)) for text in texts]
