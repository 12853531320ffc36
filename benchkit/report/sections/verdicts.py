"""Whether the trials can be believed: cell by block, each reason, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.analysis.verdicts.summary import FindingGroup, count_verdicts, group_findings, group_skipped_checks
from benchkit.models.metrics import metric_named
from benchkit.report.clean_text import clean
from benchkit.report.noise_notes import noise_of
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.report.trial_matrix import State, matrix
from benchkit.units import ABSENT

MARKS: Mapping[State, tuple[str, float | None]] = {
    "valid": ("\N{CHECK MARK}", 0.0),
    "suspect": ("suspect", 1.0),
    "invalid": ("invalid", 2.0),
    "failed": ("failed", 3.0),
    "missing": (ABSENT, None),
    "not judged": ("not judged", -0.5),
}
"""What stands for a verdict where there are many, and what it sorts by."""
SHOWN_BLOCKS = 40
"""More of them than a page can hold side by side are left to the table of trials."""
SHOWN_NAMED = 12
NOT_JUDGED = "Nobody has judged the trials of this run: `benchkit results reparse` does."


def build(material: Material) -> Mapping[str, Any] | None:
    """The count, the matrix, the reasons, what nobody could see, and the noise; nothing where there is nothing to judge by."""
    run = material.run
    found, noise = count_verdicts(run.measured), noise_of(run)
    if not found.judged and not noise:
        return None
    labels = {view.cell_id: view.label for view in run.cells}
    reasons, lacking = group_findings(run.trials, run.verdicts), group_skipped_checks(run.table("unchecked"))
    return {
        "summary": f"{found.text[:1].upper()}{found.text[1:]}." if found.judged else NOT_JUDGED,
        "matrix": _matrix(run, labels) if found.judged else None,
        "reasons": _reasons(reasons, labels) if reasons else None,
        "unmade": _table_of_unmade(run) if lacking else None,
        "checks": len(CHECKS) if found.judged else 0,
        "noise": [clean(sentence) for sentence in noise],
    }


SECTION = Section("verdicts", "Can the numbers be believed?", "verdicts.html.j2", build)


def _matrix(run: StoredRun, labels: Mapping[str, str]) -> Table | None:
    """Cells by blocks; nothing where all trials ended and are valid, or where blocks are too many to stand side by side."""
    found = matrix(run)
    if len(found.blocks) > SHOWN_BLOCKS or all(fate.state == "valid" for fate in found.fates.values()):
        return None
    return Table(
        name="verdicts",
        caption="The verdict on every trial, cell by block",
        columns=(Column("Cell", "name"), *(Column(f"Block {block}") for block in found.blocks)),
        rows=tuple(
            (Entry(labels[cell_id], float(i)), *(Entry(*MARKS[fate.state]) for fate in found.of_cell(cell_id)))
            for i, cell_id in enumerate(found.cells)
        ),
    )


def _reasons(found: list[FindingGroup], labels: Mapping[str, str]) -> Table:
    return Table(
        name="reasons",
        caption="Why trials are doubted",
        columns=(
            Column("Verdict", "name"),
            Column("Check"),
            Column("Cell"),
            Column("Trials", "number"),
            Column("Blocks"),
            Column("What was seen, what it means, what to do", "prose"),
            Column("Void or doubtful", "prose"),
        ),
        rows=tuple(
            (
                Entry(each.severity, MARKS[each.severity][1]),
                Entry(each.check),
                Entry(labels.get(each.cell_id, each.cell_id)),
                Entry(units.count(len(each.trial_ids)), float(len(each.trial_ids))),
                Entry(_listed([str(block) for block in dict.fromkeys(each.blocks)])),
                Entry(clean(each.text)),
                Entry(", ".join(metric_named(metric).title for metric in each.metrics)),
            )
            for each in found
        ),
    )


def _table_of_unmade(run: StoredRun) -> Table:
    trials = len(run.trials)
    return Table(
        name="unchecked",
        caption="What could not be checked",
        columns=(Column("Check", "name"), Column("Trials", "number"), Column("What it lacked", "prose")),
        rows=tuple(
            (
                Entry(each.check),
                Entry(f"{units.count(each.trials)} of {units.count(trials)}", float(each.trials)),
                Entry(clean(each.why)),
            )
            for each in group_skipped_checks(run.table("unchecked"))
        ),
    )


def _listed(names: list[str]) -> str:
    """Names, and how many more where they are too many."""
    more = f" and {len(names) - SHOWN_NAMED} more" if len(names) > SHOWN_NAMED else ""
    return ", ".join(names[:SHOWN_NAMED]) + more
