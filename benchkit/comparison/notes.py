"""Notes on ratios: the findings about their trials, what their cells are, and how latencies were measured.

No ratio uses trials that a verdict makes invalid, unless on request. It does use suspect ones, and says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pandas as pd

from benchkit import units
from benchkit.comparison.ratios import Ratio
from benchkit.judge.evidence import Severity
from benchkit.judge.fairness import answers_by_cell, mismatch_remarks, response_mismatches, with_declared_reasons
from benchkit.judge.registry import CHECKS
from benchkit.models.metrics import CPU
from benchkit.models.run import CellRecord, Manifest
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


UNWATCHED = "unwatched: {cell} uses an external server, which was neither started afresh nor watched"

SAME_SERVER = "A/A: both cells have the same server, byte for byte, so any difference is noise"


def with_cell_remarks(ratios: Iterable[Ratio], cells: Iterable[CellRecord]) -> list[Ratio]:
    """Return ratios with remarks about their cells, which are those of one run, or of two runs that are compared."""
    by_id = {cell.cell_id: cell for cell in sorted(cells, key=lambda cell: bool(cell.external))}
    return [_with_remarks(ratio, by_id) for ratio in ratios]


def _with_remarks(ratio: Ratio, cells: dict[str, CellRecord]) -> Ratio:
    names = dict.fromkeys((ratio.cell_id, ratio.baseline, *([ratio.relative_to] if ratio.relative_to else [])))
    unwatched = [UNWATCHED.format(cell=name) for name in names if name in cells and cells[name].external]
    own = [cells[name] for name in dict.fromkeys((ratio.cell_id, ratio.baseline)) if name in cells]
    first = {cell.same_as or cell.cell_id for cell in own}
    if len(own) == len(first):
        return ratio.with_remarks(unwatched)
    return ratio.with_remarks([SAME_SERVER, *unwatched], unwatched).model_copy(update={"same_server": True})


def with_response_remarks(ratios: Iterable[Ratio], trials: pd.DataFrame, manifest: Manifest) -> list[Ratio]:
    """Return the ratios within a run with remarks about the answers of their cells."""
    return with_response_remarks_between(ratios, trials, trials, manifest)


def with_response_remarks_between(
    ratios: Iterable[Ratio], before: pd.DataFrame, after: pd.DataFrame, manifest: Manifest
) -> list[Ratio]:
    """Return the ratios of the same cells in two runs likewise; `manifest` is that of the second run."""
    sides = [trials[is_comparable(trials)] for trials in (before, after)]
    answers_before, answers_after = map(answers_by_cell, sides)
    annotated = []
    for ratio in ratios:
        found = response_mismatches(ratio.cell_id, ratio.baseline, answers_after, answers_before)
        if found and ratio.exclusions:
            excluded = [trial.trial_id for trial in ratio.exclusions]
            remaining = [answers_by_cell(side[~side["trial_id"].isin(excluded)]) for side in reversed(sides)]
            if ratio.cell_id in remaining[0] and ratio.baseline in remaining[1]:
                found = response_mismatches(ratio.cell_id, ratio.baseline, *remaining)
        found = with_declared_reasons(found, manifest)
        doubtful = [each for each in found if each.casts_doubt]
        annotated.append(ratio.with_remarks(mismatch_remarks(found), mismatch_remarks(doubtful)) if found else ratio)
    return annotated


CLOSED_LOOP = "closed loop: coordinated omission hides queueing"

_LATENCY = "latency_"
"""Prefix of the names of latency metrics."""

_KIND = ["rate_requested", "latency_from", "latency_corrected", "latency_covers"]
"""Columns of `trials` that describe how latencies were measured."""


def latency_notes(trials: pd.DataFrame) -> tuple[str, ...]:
    """Return how these latencies were measured: the loop, the correction, what a latency covers."""
    return (
        _loop(trials),
        _correction(trials["latency_corrected"]),
        _coverage(trials["latency_covers"]),
    )


def latency_note(trials: pd.DataFrame) -> str:
    """Return the notes as one line."""
    return "; ".join(part for part in latency_notes(trials) if part)


def _loop(trials: pd.DataFrame) -> str:
    """Describe the loop: without a target rate, a tool sends the next request only after an answer."""
    closed = trials["rate_requested"].isna()
    if closed.all():
        return CLOSED_LOOP
    at_rate = f"sent at a target rate, {_origin(trials.loc[~closed, 'latency_from'])}"
    return at_rate if not closed.any() else f"{at_rate}; {CLOSED_LOOP}, in the trials without a target rate"


def _origin(instants: pd.Series) -> str:
    """Describe from when times count under a target rate; runs before this column counted from sending."""
    from_due = instants.eq("due")
    if from_due.all():
        return "times from when a request was due"
    hidden = "times from when a request was sent: how long it waited for that is hidden"
    return hidden if not from_due.any() else f"{hidden}, in some trials"


def _correction(corrected: pd.Series) -> str:
    values = {None if pd.isna(value) else bool(value) for value in corrected}
    if len(values) != 1:
        return "the tool's own correction applied in some trials"
    words = {
        True: "the tool's own correction applied",
        False: "no correction applied",
        None: "the tool does not state a correction",
    }
    return words[values.pop()]


def _coverage(covers: pd.Series) -> str:
    values = {str(value) for value in covers.dropna()}
    words = {"request": "connecting not included", "connect+request": "connecting included"}
    return words.get(values.pop(), "") if len(values) == 1 else ""


def notes_on_latencies(metrics: Iterable[str], runs: Sequence[pd.DataFrame]) -> list[str]:
    """Return the note above ratios of latencies, over the measured trials of all runs; none without such a metric."""
    if not any(metric.startswith(_LATENCY) for metric in metrics):
        return []
    measured = pd.concat([_kinds(trials) for trials in runs])
    return [] if measured.empty else [f"Latencies: {latency_note(measured)}."]


def with_latency_remarks(ratios: Iterable[Ratio], before: pd.DataFrame, after: pd.DataFrame) -> list[Ratio]:
    """Return the ratios of `after` to `before`, with a remark where latencies were measured in different ways."""
    kinds = [_kinds(trials) for trials in (before, after)]
    if len(pd.concat(kinds)[_KIND].drop_duplicates()) <= 1:
        return list(ratios)
    notes_before, notes_after = (
        {str(cell_id): latency_note(rows) for cell_id, rows in side.groupby("cell_id")} for side in kinds
    )
    annotated = []
    for ratio in ratios:
        own, base = notes_after.get(ratio.cell_id), notes_before.get(ratio.baseline)
        if ratio.metric.startswith(_LATENCY) and own != base and own and base:
            remark = f"latencies were measured in different ways: {own}; baseline: {base}"
            annotated.append(ratio.with_remarks([remark]))
        else:
            annotated.append(ratio)
    return annotated


def _kinds(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how latencies of measured trials were measured, each way of a cell once; all target rates are one way."""
    kinds = trials.loc[is_comparable(trials), ["cell_id", *_KIND]]
    return kinds.assign(
        rate_requested=kinds["rate_requested"].where(kinds["rate_requested"].isna(), 1.0)
    ).drop_duplicates()
