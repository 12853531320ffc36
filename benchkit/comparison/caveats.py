"""Caveats of ratios: findings about the trials that a ratio uses.

No ratio uses trials that a verdict makes invalid. It does use suspect ones, and the reader must know. The same holds
for invalid trials that are used on request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pandas as pd

from benchkit import units
from benchkit.comparison.ratio import Ratio
from benchkit.judge.evidence import Severity
from benchkit.judge.registry import CHECKS
from benchkit.models.metrics import CPU
from benchkit.stats.samples import Exclusion, is_comparable

NOISY_HOST = "noisy-host"
DISTURBANCES = frozenset({NOISY_HOST, "throttled", "stalled", "busy-neighbour"})
"""Checks of what takes CPU time from servers besides their load."""

OUTSIDE = DISTURBANCES - {"busy-neighbour"}
"""Those of what is no part of the run."""

EXPLAINED = DISTURBANCES | {"server-idle"}
"""Suspect findings that a ratio's other remarks explain: a server is suspected to be idle only beside others."""

CROWDED = "others filled the cores of the load tool, so that the ratio may be closer to one than it is without them"


@dataclass(frozen=True)
class Caveat:
    """A finding about metrics of a trial: those named, and no others."""

    trial_id: str
    check: str
    severity: Severity
    metrics: frozenset[str]


@dataclass(frozen=True)
class OtherProgram:
    """A program outside of the run."""

    name: str
    """Its command and pid: `python3 (pid 12290)`."""
    cores: float
    """CPU seconds per second of the trial."""


@dataclass(frozen=True, eq=False)
class RatioBasis:
    """Trials that the ratios of one run use, the findings about them, and the programs that disturbed them."""

    trials: Mapping[str, Sequence[str]]
    """Measured trials, by cell."""
    caveats: Mapping[str, Sequence[Caveat]]
    """Findings, by metric."""
    programs: Mapping[str, OtherProgram] = field(default_factory=dict)
    """The busiest program outside of the run, by trial, where one is known."""


def caveats_of(verdicts: pd.DataFrame) -> tuple[Caveat, ...]:
    """Return the rows of `verdicts` as caveats."""
    columns = (verdicts[name] for name in ("trial_id", "check", "severity", "metrics"))
    return tuple(
        Caveat(str(trial_id), str(check), severity, frozenset(map(str, metrics)))
        for trial_id, check, severity, metrics in zip(*columns, strict=True)
    )


def disturbed_trials(caveats: Iterable[Caveat]) -> Iterator[Exclusion]:
    """Yield the trials that something outside of the run disturbed, as exclusions for other designs than random ones.

    A slow clock, which affects rates alone, is a property of the host.
    """
    for each in caveats:
        if each.check in OUTSIDE and each.severity == "suspect" and CPU in each.metrics:
            yield Exclusion(each.trial_id, f"disturbed: {each.check}", each.metrics)


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
    return RatioBasis(of_cells, by_metric, _other_programs(measured))


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
        found_disturbances = [
            text
            for run_id, side in sides.items()
            if (text := _describe_disturbances(ratio, side, against.get((run_id, ratio.metric), {})))
        ]
        uses_invalid = any(group.severity == "invalid" for group in found)
        annotated.append(
            ratio.with_remarks([*dict.fromkeys(found_disturbances), *(group.remark for group in found)]).model_copy(
                update={"uses_invalid": uses_invalid}
            )
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
        reasons = "; ".join(dict.fromkeys(CROWDED if self._is_crowded(each) else because(each) for each in self.checks))
        return f"{share} of {self.where} {are} {self.severity}{used} ({reasons})"

    def _is_crowded(self, check: str) -> bool:
        return self.severity == "suspect" and check == "generator-saturated"


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
            named = {
                trial_id: {
                    each.check
                    for each in reasons[trial_id]
                    if each.severity == severity and not (severity == "suspect" and each.check in EXPLAINED)
                }
                for trial_id in affected
            }
            concerned = [trial_id for trial_id, checks in named.items() if checks]
            if concerned:
                yield _Caveats(where, severity, len(concerned), len(counted), _ordered(set().union(*named.values())))


def _describe_disturbances(ratio: Ratio, side: RatioBasis, against: Mapping[str, Sequence[Caveat]]) -> str | None:
    """Return a sentence on what disturbed the trials that a ratio uses, and what that did to the ratio; None: nothing.

    Only suspect trials are meant: those of a random order, where disturbances are noise but for the ratio's bias.
    """
    out = {trial.trial_id for trial in ratio.exclusions}
    cells = dict.fromkeys(filter(None, (ratio.cell_id, ratio.baseline, ratio.relative_to)))
    used = [trial_id for cell_id in cells for trial_id in side.trials.get(cell_id, ()) if trial_id not in out]
    disturbed: dict[str, list[str]] = {}
    for trial_id in used:
        for each in against.get(trial_id, ()):
            if each.severity == "suspect" and each.check in DISTURBANCES:
                disturbed.setdefault(each.check, []).append(trial_id)
    if not disturbed:
        return None
    affected = {trial_id for trial_ids in disturbed.values() for trial_id in trial_ids}
    causes = "; ".join(
        _describe_programs([side.programs[each] for each in trial_ids if each in side.programs])
        if check == NOISY_HOST
        else because(check)
        for check, trial_ids in disturbed.items()
    )
    effect = "" if ratio.bias else "; this met the cells at random, and the interval of the ratio includes it"
    return f"{causes}, in {_share_of_trials(len(affected), len(used))}{effect}"


def _describe_programs(programs: Sequence[OtherProgram]) -> str:
    """Return the program that most of the disturbed trials saw as the busiest, with its mean use of CPU time."""
    if not programs:
        return "other programs ran on the hosts' CPUs"
    ((name, _),) = Counter(each.name for each in programs).most_common(1)
    cores = fmean(each.cores for each in programs if each.name == name)
    if len({each.name for each in programs}) > 1:
        return f"other programs ran on the hosts' CPUs, most often {name}, which used {units.cores(cores)}"
    return f"another program, {name}, used {units.cores(cores)}"


def _other_programs(trials: pd.DataFrame) -> dict[str, OtherProgram]:
    known = trials[trials["other_program"].notna()] if "other_program" in trials else trials.head(0)
    columns = (known[name] for name in ("trial_id", "other_program", "other_program_cores") if name in known)
    return {
        str(trial_id): OtherProgram(str(name), float(cores)) for trial_id, name, cores in zip(*columns, strict=True)
    }


def because(check: str) -> str:
    """Return the clause that says what a check found; the code of one of another version."""
    return CHECKS[check].because if check in CHECKS else check


def _share_of_trials(count: int, total: int) -> str:
    if count < total:
        return f"{count} of {units.counted(total, 'trial')}"
    return "the only trial" if total == 1 else f"all {total} trials"


def _ordered(checks: Iterable[str]) -> list[str]:
    """Sort checks as they are listed everywhere; those of another version come last."""
    order = list(CHECKS)
    return sorted(checks, key=lambda check: (order.index(check) if check in order else len(order), check))
