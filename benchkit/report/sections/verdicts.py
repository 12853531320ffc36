"""Verdicts on the trials: cell by block, each reason, the skipped checks, and the noise of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchkit import units
from benchkit.judge.check import describe_metrics
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.verdicts.summary import (
    FindingGroup,
    SkippedCheckGroup,
    count_verdicts,
    group_findings,
    group_skipped_checks,
)
from benchkit.report.noise_notes import noise_notes
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.report.trial_matrix import State, trial_matrix
from benchkit.safe_text import clean
from benchkit.stats.samples import SEARCH_KINDS
from benchkit.units import ABSENT

MARKS: Mapping[State, tuple[str, float | None]] = {
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


def build(material: Material) -> VerdictsContent | None:
    """Return the verdicts and the noise; None if the run has neither."""
    run = material.run
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


SECTION = Section("verdicts", "Validity of the results", "verdicts.html.j2", build)


def _matrix_table(run: StoredRun) -> Table | None:
    """Return cells by blocks; None if all trials are valid, or if there are too many blocks."""
    matrix = trial_matrix(run)
    if len(matrix.blocks) > MAX_BLOCKS or all(outcome.state == "valid" for outcome in matrix.outcomes.values()):
        return None
    return Table(
        name="verdicts",
        caption="The verdict on every trial, cell by block",
        columns=(Column("Cell", "name"), *(Column(f"Block {block}") for block in matrix.blocks)),
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
    return Table(
        name="reasons",
        caption="Reasons for the verdicts suspect and invalid",
        columns=(
            Column("Verdict", "name"),
            Column("Check"),
            Column("Cell"),
            Column("Trials", "number"),
            Column("Blocks"),
            Column("Finding, its meaning and remedy", "prose"),
            Column("Invalid or suspect figures", "prose"),
        ),
        rows=tuple(
            (
                Entry(each.severity, MARKS[each.severity][1]),
                Entry(each.check),
                Entry(run.labels.get(each.cell_id, each.cell_id)),
                Entry(units.count(len(each.trial_ids)), float(len(each.trial_ids))),
                Entry(_list([str(block) for block in dict.fromkeys(each.blocks)])),
                Entry(clean(each.text)),
                Entry(describe_metrics(each.metrics)),
            )
            for each in findings
        ),
    )


def _skipped_table(skipped: list[SkippedCheckGroup], trials: int) -> Table:
    return Table(
        name="unchecked",
        caption="Skipped checks",
        columns=(Column("Check", "name"), Column("Trials", "number"), Column("Missing", "prose")),
        rows=tuple(
            (
                Entry(each.check),
                Entry(f"{units.count(each.trials)} of {units.count(trials)}", float(each.trials)),
                Entry(clean(each.why)),
            )
            for each in skipped
        ),
    )


def _list(names: list[str]) -> str:
    """Return the names, and the number of the others if there are too many."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
