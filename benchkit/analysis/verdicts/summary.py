"""The verdicts of a run for people: how many trials of each cell they doubt, and each reason once for all of its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.analysis.verdicts.check import Severity, Verdict
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.models.base import Frozen

FINDING_COLUMNS = ("check", "severity", "metrics", "seen", "threshold", "text")
SKIPPED_COLUMNS = ("check", "why")
"""The columns that are shown of a reason, and of a check that could not be made."""

WORST_FIRST: tuple[Verdict, ...] = ("invalid", "suspect", "valid")


class FindingGroup(Frozen):
    """A reason that some trials of a cell have against them."""

    severity: Severity
    check: str
    cell_id: str
    trial_ids: tuple[str, ...]
    blocks: tuple[int, ...]
    metrics: tuple[str, ...]
    """Those that it voids, or makes doubtful, in any of these trials."""
    text: str
    """That of the first of them."""


class SkippedCheckGroup(Frozen):
    """A check that could not be made of some trials, and what it lacked."""

    check: str
    why: str
    trials: int


class VerdictCounts(Frozen):
    """How many trials are worth what; `unjudged`: those that nobody judged."""

    valid: int = 0
    suspect: int = 0
    invalid: int = 0
    unjudged: int = 0

    @property
    def judged(self) -> int:
        """Trials that have a verdict."""
        return self.valid + self.suspect + self.invalid

    @property
    def trials(self) -> int:
        """All of them."""
        return self.judged + self.unjudged

    @property
    def problems(self) -> str:
        """How many are doubted: `1 suspect, 2 invalid`; empty for none."""
        said = (("suspect", self.suspect), ("invalid", self.invalid))
        return ", ".join(f"{number} {name}" for name, number in said if number)

    @property
    def text(self) -> str:
        """A clause: `8 of 10 trials are valid, 1 suspect, 1 invalid`."""
        if not self.judged:
            return "no trial was judged"
        valid = f"{self.valid} of {units.counted(self.judged, 'trial')} {'is' if self.valid == 1 else 'are'} valid"
        return ", ".join(filter(None, (valid, self.problems)))


def count_verdicts(trials: pd.DataFrame) -> VerdictCounts:
    """The verdicts of these trials, rows of `trials`."""
    found = trials["verdict"].value_counts(dropna=False)
    known = {name: int(found.get(name, 0)) for name in WORST_FIRST}
    return VerdictCounts(**known, unjudged=len(trials) - sum(known.values()))


def group_findings(trials: pd.DataFrame, verdicts: pd.DataFrame) -> list[FindingGroup]:
    """Every reason once for each cell, the gravest first, then in the order of the checks and of the cells."""
    places = trials[["trial_id", "cell_id", "block", "position"]]
    known = verdicts[["trial_id", "check", "severity", "metrics", "text"]].merge(places, on="trial_id")
    found = [
        FindingGroup(
            severity=severity,
            check=str(check),
            cell_id=str(cell_id),
            trial_ids=tuple(rows["trial_id"]),
            blocks=tuple(int(block) for block in rows["block"]),
            metrics=tuple(dict.fromkeys(str(metric) for metrics in rows["metrics"] for metric in metrics)),
            text=str(rows["text"].iloc[0]),
        )
        for (severity, check, cell_id), rows in known.sort_values(["block", "position"]).groupby(
            ["severity", "check", "cell_id"], sort=False
        )
    ]
    cells = list(dict.fromkeys(trials["cell_id"]))
    return sorted(
        found, key=lambda each: (WORST_FIRST.index(each.severity), _check_order(each.check), cells.index(each.cell_id))
    )


def group_skipped_checks(unchecked: pd.DataFrame) -> list[SkippedCheckGroup]:
    """Checks that could not be made, each reason once, in the order of the checks."""
    found = [
        SkippedCheckGroup(check=str(check), why=str(why), trials=len(rows))
        for (check, why), rows in unchecked.groupby(["check", "why"], sort=False)
    ]
    return sorted(found, key=lambda each: _check_order(each.check))


def checks_by_trial(verdicts: pd.DataFrame) -> Mapping[str, tuple[str, ...]]:
    """The checks that have something against each trial, in their order."""
    found: dict[str, set[str]] = {}
    for trial_id, check in zip(verdicts["trial_id"], verdicts["check"], strict=True):
        found.setdefault(str(trial_id), set()).add(str(check))
    return {trial_id: tuple(sorted(checks, key=_check_order)) for trial_id, checks in found.items()}


def finding_details(
    verdicts: pd.DataFrame, unchecked: pd.DataFrame
) -> Callable[[str], dict[str, list[dict[str, Any]]]]:
    """What checks have to say of each trial, as data: its reasons, and what could not be checked."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, table, columns in (("reasons", verdicts, FINDING_COLUMNS), ("unchecked", unchecked, SKIPPED_COLUMNS)):
        for row in table.to_dict("records"):
            said = {column: list(row[column]) if column == "metrics" else row[column] for column in columns}
            found.setdefault(str(row["trial_id"]), {"reasons": [], "unchecked": []})[name].append(said)
    return lambda trial_id: found.get(trial_id, {"reasons": [], "unchecked": []})


def verdict_label(verdict: object, checks: Iterable[str] = ()) -> str:
    """A verdict with the checks that it is for: `invalid (link-saturated)`."""
    named = ", ".join(checks)
    return f"{verdict} ({named})" if named else str(verdict)


def _check_order(check: str) -> int:
    """Where a check stands in its order; one of another version last."""
    return list(CHECKS).index(check) if check in CHECKS else len(CHECKS)
