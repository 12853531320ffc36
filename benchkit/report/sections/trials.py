"""Sections with the data of a run: every trial, the hosts, and how to reproduce the run."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pandas as pd
from ruamel.yaml import YAML

from benchkit import units
from benchkit.comparison.notes import latency_note
from benchkit.judge.run_differences import RUN_STAGES
from benchkit.judge.verdicts import checks_by_trial, verdict_label
from benchkit.models.design import control_of
from benchkit.models.metrics import P50, P99, PERCENTILES
from benchkit.models.run import HostRecord
from benchkit.report.sections.blocks import Block, Details, Part, ReportInput, Section, TableBlock, Text, heading
from benchkit.report.stored_run import StoredRun, numbers
from benchkit.report.summary import errors
from benchkit.report.tables import Entry, Table, TableColumn, named, number, prose, table
from benchkit.units import ABSENT


@dataclass(frozen=True)
class _TrialColumn:
    """A numeric column of the table; `always` shows it even if no trial has a value."""

    title: str
    source: str | Callable[[pd.DataFrame], pd.Series[float]]
    text: Callable[[float | None], str]
    unit: str = ""
    always: bool = False

    def values(self, trials: pd.DataFrame) -> pd.Series[float]:
        return numbers(trials[self.source]) if isinstance(self.source, str) else self.source(trials)


_TRIAL_COLUMNS = (
    _TrialColumn("RPS", "rps", units.rate, "requests/s", always=True),
    _TrialColumn("Errors", errors, units.count, always=True),
    _TrialColumn("Non-2xx", "non_2xx", units.count, always=True),
    _TrialColumn("Mean latency", "latency_mean_s", units.seconds, "s"),
    *(_TrialColumn(p.label, p.name, units.seconds, "s", always=p.name in {P50, P99}) for p in PERCENTILES.values()),
    _TrialColumn("Longest latency", "latency_max_s", units.seconds, "s", always=True),
    _TrialColumn("Requests", "requests", units.count, always=True),
    _TrialColumn("Received", "bytes_per_s", units.bytes_per_s, "bytes/s"),
    _TrialColumn("Target rate", "rate_requested", units.rate, "requests/s"),
    _TrialColumn("Server CPU per request", "server_cpu_s_per_request", units.seconds, "s"),
    _TrialColumn("Server memory", "server_memory_bytes", units.size, "B"),
    _TrialColumn("Context switches per request", "server_switches_per_request", units.ratio),
    _TrialColumn("TLS handshakes", "handshakes_per_s", units.rate, "1/s"),
    _TrialColumn("Resumed", "resumed_share", units.share),
    _TrialColumn("Server CPU per handshake", "server_cpu_s_per_handshake", units.seconds, "s"),
    _TrialColumn("Window", "duration_s", units.seconds, "s", always=True),
    _TrialColumn("Overhead", "overhead_s", units.seconds, "s", always=True),
)


def _trials(report: ReportInput) -> Iterator[Block]:
    run = report.run
    if not run.trials.empty:
        yield Text(f"Latency is from the histogram of all requests if the tool has one ({latency_note(run.trials)}).")
        yield TableBlock(_trial_table(run))


TRIALS = Section("trials", "Every trial", _trials)


def _trial_table(run: StoredRun) -> Table:
    """Return all ended trials in the order in which they ran; columns without a value are omitted."""
    trials = run.trials.sort_values(["block", "position", "trial_id"], kind="stable")
    started = trials["started_at"].dt.tz_convert("UTC").dt.strftime("%Y-%m-%d %H:%M:%S")
    names = trials["trial_id"].str.removeprefix(f"{run.manifest.run_id}.")
    columns = [
        (TableColumn("Block", "number"), [number(block, units.count) for block in trials["block"]]),
        (TableColumn("Position", "number"), [number(position, units.count) for position in trials["position"]]),
        (TableColumn("Cell", "name"), _cells(run, trials["cell_id"])),
        *((TableColumn(title), _texts(trials[name])) for title, name in _word_columns(trials)),
        *([(TableColumn("Verdict", "prose"), _verdicts(run, trials))] if trials["verdict"].notna().any() else []),
    ]
    for each in _TRIAL_COLUMNS:
        values = each.values(trials)
        if each.always or values.notna().any():
            column = TableColumn(each.title, "number", each.unit)
            columns.append((column, [number(value, each.text) for value in values]))
    columns += [(TableColumn("Started (UTC)"), _texts(started)), (TableColumn("Trial"), _texts(names))]
    return Table(
        name="trials",
        caption="Every trial that ended, in the order in which they ran",
        columns=tuple(column for column, _ in columns),
        rows=tuple(zip(*(entries for _, entries in columns), strict=True)),
    )


def _word_columns(trials: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the columns of words that differ between trials, and those of protocols other than plain HTTP/1."""
    differing = [("Kind", "kind"), ("Tool", "tool"), ("Corrected", "latency_corrected"), ("Covers", "latency_covers")]
    protocol = [("Protocol", "protocol"), ("TLS", "tls_version"), ("Cipher", "cipher")]
    return [
        *((title, name) for title, name in differing if len(trials[name].drop_duplicates()) > 1),
        *((title, name) for title, name in protocol if set(trials[name].dropna()) - {"http1"}),
    ]


def _verdicts(run: StoredRun, trials: pd.DataFrame) -> list[Entry]:
    checks = checks_by_trial(run.verdicts)
    return [
        Entry(ABSENT if pd.isna(verdict) else verdict_label(verdict, checks.get(str(trial_id), ())))
        for verdict, trial_id in zip(trials["verdict"], trials["trial_id"], strict=True)
    ]


def _cells(run: StoredRun, column: pd.Series) -> list[Entry]:
    """Return the labels of cells, sorted in the order of the plan, each before its control."""
    views = {view.cell_id: (view.label, float(i)) for i, view in enumerate(run.cells)}
    views |= {control_of(name): (f"{label} (control)", place + 0.5) for name, (label, place) in views.items()}
    return [Entry(*views[str(cell_id)]) for cell_id in column]


def _texts(column: pd.Series) -> list[Entry]:
    return [Entry(ABSENT if pd.isna(value) else str(value)) for value in column]


def _reproduce(report: ReportInput) -> Iterator[Block]:
    """Yield the command and the scenario that repeat the plan, unless the run is imported, and the hosts."""
    run, manifest = report.run, report.run.manifest
    if not manifest.is_imported:
        scenario = _yaml(manifest.model_dump(mode="json")["scenario"])
        words = ["benchkit", "run", manifest.scenario_name, "--scale", manifest.scale, "--seed", str(manifest.seed)]
        words += [word for setting in manifest.settings for word in ("--set", setting)]
        yield Text("The same plan, in the same random order, on the hosts of your inventory:")
        yield Part(
            "reproduce",
            {
                "command": shlex.join(words),
                "scenario": scenario,
                "download": f"data:application/yaml;charset=utf-8,{quote(scenario)}",
                "file": f"{manifest.scenario_name}-as-run.yaml",
            },
        )
        rows = [{"Software": named(name), "Version": prose(version)} for name, version in manifest.versions.items()]
        yield Details("Versions", [TableBlock(table("versions", "Versions", rows))])
    if manifest.hosts:
        yield heading("Hosts and their tuning")
    for host in manifest.hosts:
        facts = _facts(host, run.hosts)
        aside = f"role {', '.join(host.roles)}, {len(facts.rows)} facts"
        yield Details(
            host.name, [TableBlock(facts) if facts.rows else Text("No facts of this host are stored.")], aside
        )


REPRODUCE = Section("reproduce", "How to reproduce it", _reproduce)


def _facts(host: HostRecord, stored: pd.DataFrame) -> Table:
    """Return the facts of a host during the trials: those at the start, updated by the run's tuning."""
    known = stored[(stored["host"] == host.name) & stored["at"].isin(RUN_STAGES) & stored["value"].notna()]
    values = dict(zip(known["fact"], known["value"], strict=True))
    rows = [{"Fact": named(str(fact)), "Value": prose(str(value))} for fact, value in values.items()]
    return table(f"facts-{host.name}", f"Facts of {host.name}", rows)


def _yaml(data: object) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096  # the page breaks long lines, not the file
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()
