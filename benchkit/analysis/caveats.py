"""Caveats of ratios: findings about the trials that a ratio uses.

No ratio uses trials that a verdict makes invalid. It does use suspect ones, and the reader must know. The same holds
for invalid trials that are used on request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import is_comparable
from benchkit.analysis.verdicts.check import Severity
from benchkit.analysis.verdicts.registry import CHECKS


@dataclass(frozen=True)
class Caveat:
    """A finding about metrics of a trial: those named, and no others."""

    trial_id: str
    check: str
    severity: Severity
    metrics: frozenset[str]


@dataclass(frozen=True, eq=False)
class RatioBasis:
    """Trials that the ratios of one run use, and the findings about them."""

    trials: Mapping[str, Sequence[str]]
    """Measured trials, by cell."""
    caveats: Mapping[str, Sequence[Caveat]]
    """Findings, by metric."""


def caveats_of(verdicts: pd.DataFrame) -> tuple[Caveat, ...]:
    """Return the rows of `verdicts` as caveats."""
    columns = (verdicts[name] for name in ("trial_id", "check", "severity", "metrics"))
    return tuple(
        Caveat(str(trial_id), str(check), severity, frozenset(map(str, metrics)))
        for trial_id, check, severity, metrics in zip(*columns, strict=True)
    )


def ratio_basis(trials: pd.DataFrame, caveats: Iterable[Caveat]) -> RatioBasis:
    """Return the basis of the ratios of one run, from its rows of `trials`."""
    measured = trials[is_comparable(trials)]
    of_cells: defaultdict[str, list[str]] = defaultdict(list)
    for cell_id, trial_id in zip(measured["cell_id"], measured["trial_id"], strict=True):
        of_cells[str(cell_id)].append(str(trial_id))
    by_metric: defaultdict[str, list[Caveat]] = defaultdict(list)
    for caveat in caveats:
        for metric in caveat.metrics:
            by_metric[metric].append(caveat)
    return RatioBasis(of_cells, by_metric)


def with_caveats(ratios: Iterable[Ratio], sides: Mapping[str, RatioBasis]) -> list[Ratio]:
    """Return the ratios with remarks about the trials that they use; `sides` are the runs involved, by run_id."""
    against = {
        (run_id, metric): _by_trial(caveats)
        for run_id, side in sides.items()
        for metric, caveats in side.caveats.items()
    }
    annotated = []
    for ratio in ratios:
        found = [
            group
            for run_id, side in sides.items()
            for group in _caveats_of_ratio(
                ratio, run_id if len(sides) > 1 else None, side, against.get((run_id, ratio.metric), {})
            )
        ]
        uses_invalid = any(group.severity == "invalid" for group in found)
        annotated.append(
            ratio.with_remarks([group.remark for group in found]).model_copy(update={"uses_invalid": uses_invalid})
            if found
            else ratio
        )
    return annotated


def _by_trial(caveats: Sequence[Caveat]) -> dict[str, list[Caveat]]:
    found: dict[str, list[Caveat]] = {}
    for caveat in caveats:
        found.setdefault(caveat.trial_id, []).append(caveat)
    return found


@dataclass(frozen=True)
class _Caveats:
    """The findings of one severity about the trials of a cell that a ratio uses."""

    where: str
    severity: Severity
    affected: int
    trials: int
    checks: Sequence[str]

    @property
    def remark(self) -> str:
        """The findings as a sentence."""
        used = " but used on request" if self.severity == "invalid" else ""
        are = "is" if self.affected == 1 else "are"
        share = _share_of_trials(self.affected, self.trials)
        return f"{share} of {self.where} {are} {self.severity}{used} ({', '.join(self.checks)})"


def _caveats_of_ratio(
    ratio: Ratio, run_id: str | None, side: RatioBasis, against: Mapping[str, Sequence[Caveat]]
) -> Iterator[_Caveats]:
    """Yield the findings for each cell of the ratio, and each severity."""
    if not against:
        return
    out = {trial.trial_id for trial in ratio.exclusions}
    for cell_id in dict.fromkeys(filter(None, (ratio.cell_id, ratio.baseline, ratio.relative_to))):
        counted = [trial_id for trial_id in side.trials.get(cell_id, ()) if trial_id not in out]
        reasons = {trial_id: against[trial_id] for trial_id in counted if trial_id in against}
        invalid = {trial_id for trial_id, those in reasons.items() if any(each.severity == "invalid" for each in those)}
        where = cell_id if run_id is None else f"{cell_id} in {run_id}"
        groups: tuple[tuple[Severity, Collection[str]], ...] = (
            ("invalid", invalid),
            ("suspect", reasons.keys() - invalid),
        )
        for severity, affected in groups:
            named = {each.check for trial_id in affected for each in reasons[trial_id] if each.severity == severity}
            if affected:
                yield _Caveats(where, severity, len(affected), len(counted), _ordered(named))


def _share_of_trials(count: int, total: int) -> str:
    if count < total:
        return f"{count} of {units.counted(total, 'trial')}"
    return "the only trial" if total == 1 else f"all {total} trials"


def _ordered(checks: Iterable[str]) -> list[str]:
    """Sort checks as they are listed everywhere; those of another version come last."""
    order = list(CHECKS)
    return sorted(checks, key=lambda check: (order.index(check) if check in order else len(order), check))
