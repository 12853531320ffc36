"""What the tools' own outputs say against their figures: defects seen, and what a tool cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.results.profile_tables import PROFILE_NOTES


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each kind of note and tool; nothing where no tool had any."""
    run = material.run
    seen = run.notes[~run.notes["code"].isin(PROFILE_NOTES)]  # the section of profiles has these
    if seen.empty:
        return None
    trials_of = {str(tool): len(trials) for tool, trials in run.trials.groupby("tool", sort=False)}
    noted = seen.merge(run.trials[["trial_id", "tool"]], on="trial_id")
    rows = []
    for (tool, code), notes in noted.groupby(["tool", "code"], sort=False):
        said = list(dict.fromkeys(map(str, notes["message"])))
        others = f" (the first of {len(said)} such)" if len(said) > 1 else ""
        trials = int(notes["trial_id"].nunique())
        share = f"{units.count(trials)} of {units.count(trials_of[str(tool)])}"
        rows.append(
            (
                Entry(clean(str(tool))),
                Entry(share, float(trials)),
                Entry(clean(str(code))),
                Entry(clean(said[0]) + others),
            )
        )
    return {
        "table": Table(
            name="notes",
            caption="What the tools' outputs say against their own figures",
            columns=(
                Column("Tool", "name"),
                Column("Trials", "number"),
                Column("Note"),
                Column("What was seen, or cannot be had", "prose"),
            ),
            rows=tuple(rows),
        )
    }


SECTION = Section("notes", "Notes on the tools", "table.html.j2", build)
