"""Sections on the validity of results: verdicts, noise, failures and notes."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import describe_metrics
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.verdicts import count_verdicts, group_findings, group_skipped_checks
from benchkit.models.metrics import metric_named
from benchkit.report.sections.blocks import (
    Block,
    Bullets,
    Details,
    ReportInput,
    Section,
    TableBlock,
    Text,
    heading,
    note,
)
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import cell_names
from benchkit.report.tables import Entry, Table, named, number, prose, table
from benchkit.safe_text import clean
from benchkit.stats.samples import SEARCH_KINDS
from benchkit.store.journal import RunProgress
from benchkit.store.profile_tables import PASS_NOTES

NOT_JUDGED = "The trials of this run were not judged; `benchkit results reparse` judges them."
UNKNOWN = "No cell was compared with itself: the noise of this run is not known."
_SEVERITIES = {"suspect": 1.0, "invalid": 2.0}
_MAX_LISTED = 12


def _validity(report: ReportInput) -> Iterator[Block]:
    run = report.run
    counts, noise = count_verdicts(run.measured), noise_notes(run)
    if counts.judged:
        yield Text(f"{counts.text[:1].upper()}{counts.text[1:]}.")
        yield from _findings(run)
    elif noise:
        yield Text(NOT_JUDGED)
    if noise:
        yield heading("Noise and statistical power")
        yield Bullets([clean(each) for each in noise])
    if counts.judged:
        yield note(
            f"{len(CHECKS)} checks look for conditions that make a benchmark result unusable. An invalid trial is shown, "
            "but never used in the figures that its findings invalidate; a suspect trial is used. No trial is excluded "
            "for its value."
        )


VALIDITY = Section("validity", "Validity of the results", _validity)


def _findings(run: StoredRun) -> Iterator[Block]:
    """Yield the findings of all trials but probes of a search: a probe that misses its rate is no defect of the run."""
    findings = group_findings(run.trials[~run.trials["kind"].isin(SEARCH_KINDS)], run.verdicts)
    if findings:
        rows = [
            {
                "Verdict": named(each.severity, _SEVERITIES[each.severity]),
                "Check": Entry(each.check),
                "Cell": Entry(run.labels.get(each.cell_id, each.cell_id)),
                "Trials": number(len(each.trial_ids), units.count),
                "Blocks": Entry(units.first_of([str(block) for block in dict.fromkeys(each.blocks)], _MAX_LISTED)),
                "Finding, its meaning and remedy": prose(clean(each.text)),
                "Invalid or suspect figures": prose(describe_metrics(each.metrics)),
            }
            for each in findings
        ]
        yield TableBlock(table("reasons", "Reasons for the verdicts suspect and invalid", rows))
    skipped = group_skipped_checks(run.table("unchecked"))
    if skipped:
        rows = [
            {
                "Check": named(each.check),
                "Trials": number(each.trials, units.count, f" of {units.count(len(run.trials))}"),
                "Missing": prose(clean(each.why)),
            }
            for each in skipped
        ]
        yield Details("Skipped checks", [TableBlock(table("unchecked", "Skipped checks", rows))])


def noise_notes(run: StoredRun) -> list[str]:
    """Return a sentence for each ratio of a cell to itself, and for each detectable difference."""
    names, notes = cell_names(run), []
    for comparison in run.comparisons:
        for ratio in (each for each in comparison.ratios if each.control):
            itself = f"{metric_named(ratio.metric).title} of {names[ratio.baseline]} relative to itself"
            if ratio.low is None or ratio.high is None:
                notes.append(f"{itself} is not known: {ratio.reason}.")
            else:
                shown = f"{ratio.ratio:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}"
                notes.append(f"{itself}: {shown}; this is the noise of the run alone.")
    if run.comparisons and not notes:
        notes.append(UNKNOWN)
    for comparison in run.comparisons:
        (metric,) = comparison.metrics
        resolution = comparison.resolution.get(metric)
        if resolution is not None and resolution.detects:
            notes.append(f"{metric_named(metric).title}: {resolution.detects}")
    return notes


def _notes(report: ReportInput) -> Iterator[Block]:
    run = report.run
    tables = (
        ("Trials that failed or were repeated", _failure_table(run)),
        ("Notes of the tools on their own results", _tool_note_table(run)),
    )
    for title, found in tables:
        if found is not None:
            yield heading(title)
            yield TableBlock(found)
    if run.manifest.notes:
        yield heading("Notes on the hosts")
        yield Bullets(run.manifest.notes)


NOTES = Section("notes", "Failures and notes", _notes)


def _failure_table(run: StoredRun) -> Table | None:
    progress = run.progress
    failures = sorted(
        (run.labels.get(progress.positions[trial].cell_id, ""), progress.positions[trial].block, event, reason)
        for trial, event, reason in _failures(progress)
        if trial in progress.positions
    )
    rows = [
        {"Cell": named(label), "Block": number(block, units.count), "Event": Entry(event), "Reason": prose(reason)}
        for label, block, event, reason in failures
    ]
    return table("failures", "Trials that did not succeed at once", rows) if rows else None


def _failures(progress: RunProgress) -> Iterator[tuple[str, str, str]]:
    yield from ((trial, "failed", reason) for trial, reason in progress.failed.items())
    yield from ((trial, "skipped", reason) for trial, reason in progress.skipped.items())
    yield from ((trial, "retried", reason) for trial, reasons in progress.retries.items() for reason in reasons)
    repeated = "its block was repeated; excluded"
    yield from ((trial, "interrupted", repeated) for trial in progress.interrupted & progress.ended.keys())


def _tool_note_table(run: StoredRun) -> Table | None:
    notes = run.notes[~run.notes["code"].isin(PASS_NOTES)]  # the section of services has these
    trials_of = {str(tool): len(trials) for tool, trials in run.trials.groupby("tool", sort=False)}
    by_tool = notes.merge(run.trials[["trial_id", "tool"]], on="trial_id").groupby(["tool", "code"], sort=False)
    rows = []
    for (tool, code), group in by_tool:
        messages = list(dict.fromkeys(map(str, group["message"])))
        others = f" (the first of {len(messages)} such)" if len(messages) > 1 else ""
        rows.append(
            {
                "Tool": named(clean(str(tool))),
                "Trials": number(group["trial_id"].nunique(), units.count, f" of {units.count(trials_of[str(tool)])}"),
                "Note": Entry(clean(str(code))),
                "Meaning": prose(clean(messages[0]) + others),
            }
        )
    return table("notes", "Notes of the tools on their own results", rows) if rows else None
