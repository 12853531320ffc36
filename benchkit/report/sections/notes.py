"""Notes of the tools on their own results: defects that were seen, and figures that a tool cannot give."""

from __future__ import annotations

from benchkit import units
from benchkit.report.sections.section import Material, Section, TableContent
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.store.profile_tables import PROFILE_NOTES


def build(material: Material) -> TableContent | None:
    """Return a row for each kind of note and tool; None if no tool had any."""
    run = material.run
    notes = run.notes[~run.notes["code"].isin(PROFILE_NOTES)]  # the section of profiles has these
    if notes.empty:
        return None
    trials_of = {str(tool): len(trials) for tool, trials in run.trials.groupby("tool", sort=False)}
    by_tool = notes.merge(run.trials[["trial_id", "tool"]], on="trial_id").groupby(["tool", "code"], sort=False)
    rows = []
    for (tool, code), group in by_tool:
        messages = list(dict.fromkeys(map(str, group["message"])))
        others = f" (the first of {len(messages)} such)" if len(messages) > 1 else ""
        trials = int(group["trial_id"].nunique())
        share = f"{units.count(trials)} of {units.count(trials_of[str(tool)])}"
        rows.append(
            (
                Entry(clean(str(tool))),
                Entry(share, float(trials)),
                Entry(clean(str(code))),
                Entry(clean(messages[0]) + others),
            )
        )
    return TableContent(
        Table(
            name="notes",
            caption="Notes of the tools on their own results",
            columns=(
                Column("Tool", "name"),
                Column("Trials", "number"),
                Column("Note"),
                Column("Meaning", "prose"),
            ),
            rows=tuple(rows),
        )
    )


SECTION = Section("notes", "Notes on the tools", "table.html.j2", build)
