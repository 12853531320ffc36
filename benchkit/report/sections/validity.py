"""Sections on how far results can be trusted: verdicts and noise, agreement of tools, failures, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.agreement import Agreement, sentence, title_and_format
from benchkit.judge.check import describe_metrics
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.verdict_summary import (
    FindingGroup,
    SkippedCheckGroup,
    count_verdicts,
    group_findings,
    group_skipped_checks,
)
from benchkit.models.metrics import metric_named
from benchkit.report.sections.section import ReportInput, Section, TableContent
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import cell_names
from benchkit.report.tables import Entry, Table, TableColumn, named, number, prose, table
from benchkit.report.trial_matrix import TrialState, trial_matrix
from benchkit.safe_text import clean
from benchkit.stats.samples import SEARCH_KINDS
from benchkit.store.journal import RunProgress
from benchkit.store.profile_tables import PROFILE_NOTES, TRACE_NOTES
from benchkit.units import ABSENT

MARKS: Mapping[TrialState, tuple[str, float | None]] = {
    "valid": ("\N{CHECK MARK}", 0.0),
    "suspect": ("suspect", 1.0),
    "invalid": ("invalid", 2.0),
    "failed": ("failed", 3.0),
    "missing": (ABSENT, None),
    "not judged": ("not judged", -0.5),
}
"""Text of a state in the matrix, and the number that it sorts by."""
MAX_BLOCKS = 40
"""Blocks up to which the matrix is shown: more do not fit side by side, and the table of trials has all verdicts."""
MAX_LISTED = 12
NOT_JUDGED = "The trials of this run were not judged; `benchkit results reparse` judges them."


@dataclass(frozen=True)
class VerdictsContent:
    """Number of verdicts, matrix, reasons, skipped checks and noise; `checks` is the number of checks of each trial."""

    summary: str
    matrix: Table | None
    reasons: Table | None
    skipped_checks: Table | None
    checks: int
    noise: tuple[str, ...]


def build_verdicts(report: ReportInput) -> VerdictsContent | None:
    """Return the verdicts and the noise; None if the run has neither."""
    run = report.run
    counts, noise = count_verdicts(run.measured), noise_notes(run)
    if not counts.judged and not noise:
        return None
    judged = run.trials[~run.trials["kind"].isin(SEARCH_KINDS)]  # a probe that misses its rate is no defect of the run
    findings, skipped = group_findings(judged, run.verdicts), group_skipped_checks(run.table("unchecked"))
    return VerdictsContent(
        summary=f"{counts.text[:1].upper()}{counts.text[1:]}." if counts.judged else NOT_JUDGED,
        matrix=_matrix_table(run) if counts.judged else None,
        reasons=_reason_table(findings, run) if findings else None,
        skipped_checks=_skipped_table(skipped, len(run.trials)) if skipped else None,
        checks=len(CHECKS) if counts.judged else 0,
        noise=tuple(map(clean, noise)),
    )


VERDICTS = Section("verdicts", "Validity of the results", "verdicts.html.j2", build_verdicts)


def _matrix_table(run: StoredRun) -> Table | None:
    """Return cells by blocks; None if all trials are valid, or if there are too many blocks."""
    matrix = trial_matrix(run)
    if len(matrix.blocks) > MAX_BLOCKS or all(outcome.state == "valid" for outcome in matrix.outcomes.values()):
        return None
    return Table(
        name="verdicts",
        caption="The verdict on every trial, cell by block",
        columns=(TableColumn("Cell", "name"), *(TableColumn(f"Block {block}") for block in matrix.blocks)),
        rows=tuple(
            (
                Entry(run.labels[cell_id], float(i)),
                *(
                    Entry("") if outcome is None else Entry(*MARKS[outcome.state])
                    for outcome in matrix.of_cell(cell_id)
                ),
            )
            for i, cell_id in enumerate(matrix.cells)
        ),
    )


def _reason_table(findings: list[FindingGroup], run: StoredRun) -> Table:
    rows = [
        {
            "Verdict": named(each.severity, MARKS[each.severity][1]),
            "Check": Entry(each.check),
            "Cell": Entry(run.labels.get(each.cell_id, each.cell_id)),
            "Trials": number(len(each.trial_ids), units.count),
            "Blocks": Entry(units.first_of([str(block) for block in dict.fromkeys(each.blocks)], MAX_LISTED)),
            "Finding, its meaning and remedy": prose(clean(each.text)),
            "Invalid or suspect figures": prose(describe_metrics(each.metrics)),
        }
        for each in findings
    ]
    return table("reasons", "Reasons for the verdicts suspect and invalid", rows)


def _skipped_table(skipped: list[SkippedCheckGroup], trials: int) -> Table:
    rows = [
        {
            "Check": named(each.check),
            "Trials": number(each.trials, units.count, f" of {units.count(trials)}"),
            "Missing": prose(clean(each.why)),
        }
        for each in skipped
    ]
    return table("unchecked", "Skipped checks", rows)


UNKNOWN = "No cell was compared with itself: the noise floor of this run is not known."


def noise_notes(run: StoredRun) -> list[str]:
    """Return a sentence for each ratio and metric; none if no cells are compared."""
    if not run.comparisons:
        return []
    return [*_control_ratios(run), *_detectable_differences(run)]


def _control_ratios(run: StoredRun) -> Iterator[str]:
    names = cell_names(run)
    controls = [(metric_named(ratio.metric).title, ratio) for one in run.comparisons for ratio in one.controls]
    for title, ratio in controls:
        itself = f"{title} of {names[ratio.baseline]} relative to itself"
        if ratio.low is None or ratio.high is None:
            yield f"{itself} is not known: {ratio.reason}."
        else:
            yield (
                f"{itself}: {ratio.ratio:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}; "
                "this is the noise of the run alone."
            )
    if not controls:
        yield UNKNOWN


def _detectable_differences(run: StoredRun) -> Iterator[str]:
    for comparison in run.comparisons:
        (metric,) = comparison.metrics
        resolution = comparison.resolution.get(metric)
        if resolution is not None and resolution.detects:
            yield f"{metric_named(metric).title}: {resolution.detects}"


@dataclass(frozen=True)
class AgreementOfCell:
    """A cell: a sentence for each metric, the excluded tools and trials, and the figures."""

    label: str
    sentences: tuple[str, ...]
    exclusions: tuple[str, ...]
    table: Table


def build_agreement(report: ReportInput) -> tuple[AgreementOfCell, ...] | None:
    """Return the agreement on each cell; None for a run with one tool."""
    by_cell: dict[str, list[Agreement]] = {}
    for each in report.run.agreements:
        label = clean(", ".join(f"{name} {level}" for name, level in each.levels.items()))
        by_cell.setdefault(label, []).append(each)
    return tuple(_agreement_content(place, *cell) for place, cell in enumerate(by_cell.items(), 1)) or None


TOOL_AGREEMENT = Section("tool-agreement", "Do the tools agree?", "tool_agreement.html.j2", build_agreement)


def _agreement_content(place: int, label: str, agreements: Sequence[Agreement]) -> AgreementOfCell:
    return AgreementOfCell(
        label=label,
        sentences=tuple(clean(sentence(each)) for each in agreements),
        exclusions=(
            *(
                clean(f"{title_and_format(each.metric)[0]}: {tool} is excluded, {reason}.")
                for each in agreements
                for tool, reason in each.excluded_tools.items()
            ),
            *(
                clean(f"{title_and_format(each.metric)[0]}: {tool}, {note}.")
                for each in agreements
                for tool, note in each.invalid_trials.items()
            ),
        ),
        table=table(
            f"agreement-{place}",
            f"Results of each tool{f' for {label}' if label else ''}",
            [row for each in agreements for row in _agreement_rows(each)],
        ),
    )


def _agreement_rows(agreement: Agreement) -> list[dict[str, Entry]]:
    title, to_text = title_and_format(agreement.metric)
    return [
        {
            "Figure": Entry(title),
            "Tool": named(clean(each.tool)),
            "Median": number(each.median, to_text),
            "Lowest trial": number(each.lowest, to_text),
            "Highest trial": number(each.highest, to_text),
            "Trials": number(each.trials, units.count),
        }
        for each in agreement.tools
    ]


def build_failures(report: ReportInput) -> TableContent | None:
    """Return a row for each trial that failed or was repeated, by cell; None if every trial succeeded at once."""
    labels, progress = report.run.labels, report.run.progress
    failures = sorted(
        (labels.get(progress.positions[trial].cell_id, ""), progress.positions[trial].block, event, reason)
        for trial, event, reason in _failures(progress)
        if trial in progress.positions
    )
    if not failures:
        return None
    rows = [
        {"Cell": named(label), "Block": number(block, units.count), "Event": Entry(event), "Reason": prose(reason)}
        for label, block, event, reason in failures
    ]
    return TableContent(table("failures", "Trials that did not succeed at once", rows))


def _failures(progress: RunProgress) -> Iterator[tuple[str, str, str]]:
    yield from ((trial, "failed", reason) for trial, reason in progress.failed.items())
    yield from ((trial, "skipped", reason) for trial, reason in progress.skipped.items())
    yield from ((trial, "retried", reason) for trial, reasons in progress.retries.items() for reason in reasons)
    repeated = "its block was repeated; excluded"
    yield from ((trial, "interrupted", repeated) for trial in progress.interrupted & progress.ended.keys())


FAILURES = Section("failures", "Trials that failed or were repeated", "table.html.j2", build_failures)


def build_notes(report: ReportInput) -> TableContent | None:
    """Return a row for each kind of note and tool; None if no tool had any."""
    run = report.run
    notes = run.notes[~run.notes["code"].isin([*PROFILE_NOTES, *TRACE_NOTES])]  # the section of profiles has these
    if notes.empty:
        return None
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
    return TableContent(table("notes", "Notes of the tools on their own results", rows))


NOTES = Section("notes", "Notes on the tools", "table.html.j2", build_notes)


def build_unsupported(report: ReportInput) -> TableContent | None:
    """Return a row for each unsupported cell; None if all were supported."""
    rows = [
        {"Cell": named(view.label), "Reason": prose(view.unsupported)}
        for view in report.run.cells
        if view.unsupported is not None
    ]
    return TableContent(table("unsupported", "Cells that were planned and not run", rows)) if rows else None


UNSUPPORTED = Section("unsupported", "Not supported on these hosts", "table.html.j2", build_unsupported)


def build_host_notes(report: ReportInput) -> tuple[str, ...] | None:
    """Return the notes of the plan on what is not isolated, not applied, or lowered; None if there were none."""
    return tuple(report.run.manifest.notes) or None


HOST_NOTES = Section("host-notes", "Notes on the hosts", "host_notes.html.j2", build_host_notes)
