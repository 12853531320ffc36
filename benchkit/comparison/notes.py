"""Notes on ratios: the findings about their trials, what their cells are, and how latencies were measured.

Ratios use trials that a verdict makes invalid only on request. They use suspect trials, and a note says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import (
    DISTURBANCES,
    LATENCY_KIND,
    NOISY_HOST,
    RatioBasis,
    RunData,
    StoredFinding,
)
from benchkit.judge.checks.registry import CHECKS, check_order
from benchkit.judge.evidence import Severity
from benchkit.judge.responses import answers_by_cell, mismatch_notes, response_mismatches, with_declared_reasons
from benchkit.stats.samples import INVALID, ExcludedTrial

CROWDED = "other programs used the cores of the load tool: without them, the servers may differ more"


def with_run_notes(ratios: Iterable[Ratio], runs: Sequence[RunData]) -> list[Ratio]:
    """Return the ratios within one run, or of the second of two runs to the first, with all notes on their trials."""
    before, after = runs[0], runs[-1]
    ratios = with_latency_notes(with_response_notes(ratios, before, after), before, after)
    return with_cell_notes(with_findings(ratios, runs), runs)


def with_findings(ratios: Iterable[Ratio], runs: Iterable[RunData]) -> list[Ratio]:
    """Return the ratios with notes on the findings about the trials that they use."""
    sides = {run.manifest.run_id: run.basis for run in runs}
    return [_with_findings(ratio, sides) for ratio in ratios]


def _with_findings(ratio: Ratio, sides: Mapping[str, RatioBasis]) -> Ratio:
    excluded = {trial.trial_id for trial in ratio.exclusions}
    cells = dict.fromkeys(filter(None, (ratio.cell_id, ratio.baseline, ratio.relative_to)))
    disturbances: dict[str, None] = {}
    notes: list[tuple[Severity, str]] = []
    for run_id, side in sides.items():
        findings = side.findings.get(ratio.metric, {})
        used = {cell: [each for each in side.trials.get(cell, ()) if each not in excluded] for cell in cells}
        trial_ids = [trial_id for of_cell in used.values() for trial_id in of_cell]
        if text := _describe_disturbances(ratio, trial_ids, findings, side.programs):
            disturbances[text] = None
        for cell, of_cell in used.items():
            notes += _describe_findings(cell if len(sides) == 1 else f"{cell} in {run_id}", of_cell, findings)
    noted = ratio.with_notes([*disturbances, *(text for _, text in notes)])
    return noted.model_copy(update={"uses_invalid": any(severity == "invalid" for severity, _ in notes)})


def _describe_findings(
    where: str, trial_ids: Sequence[str], findings: Mapping[str, Sequence[StoredFinding]]
) -> Iterator[tuple[Severity, str]]:
    """Yield a sentence for each severity about the used trials of a cell, apart from suspect ones by disturbances."""
    affected: dict[Severity, dict[str, set[str]]] = {"invalid": {}, "suspect": {}}
    for trial_id in trial_ids:
        of_trial = findings.get(trial_id, ())
        severity: Severity = "invalid" if any(each.severity == "invalid" for each in of_trial) else "suspect"
        checks = {each.check for each in of_trial if each.severity == severity}
        if shown := checks if severity == "invalid" else checks - DISTURBANCES:
            affected[severity][trial_id] = shown
    for severity, checks_of in affected.items():
        if checks_of:
            checks = set().union(*checks_of.values())
            clauses = {
                CROWDED if (severity, check) == ("suspect", "generator-saturated") else because(check): None
                for check in sorted(sorted(checks), key=check_order)  # checks of other versions are sorted by name
            }
            verb = "is" if len(checks_of) == 1 else "are"
            used = " but used on request" if severity == "invalid" else ""
            share = _share_of_trials(len(checks_of), len(trial_ids))
            yield severity, f"{share} of {where} {verb} {severity}{used} ({'; '.join(clauses)})"


def _describe_disturbances(
    ratio: Ratio,
    trial_ids: Sequence[str],
    findings: Mapping[str, Sequence[StoredFinding]],
    programs: Mapping[str, tuple[str, float]],
) -> str | None:
    """Return a sentence on what disturbed the suspect trials of a ratio, and how that affects it; None: nothing did.

    Their order is random, so that disturbances are noise apart from the ratio's bias.
    """
    disturbed: defaultdict[str, list[str]] = defaultdict(list)
    for trial_id in trial_ids:
        for each in findings.get(trial_id, ()):
            if each.severity == "suspect" and each.check in DISTURBANCES:
                disturbed[each.check].append(trial_id)
    if not disturbed:
        return None
    causes = "; ".join(
        _describe_programs([programs[each] for each in of_check if each in programs])
        if check == NOISY_HOST
        else because(check)
        for check, of_check in disturbed.items()
    )
    share = _share_of_trials(len(set().union(*disturbed.values())), len(trial_ids))
    effect = "" if ratio.bias else "; as the order of trials is random, this only widens the interval"
    return f"{causes}, in {share}{effect}"


def _describe_programs(programs: Sequence[tuple[str, float]]) -> str:
    """Return the program that was the busiest in most of the disturbed trials, with its mean use of CPU time."""
    if not programs:
        return "other programs ran on the hosts' CPUs"
    names = Counter(name for name, _ in programs)
    name = max(names, key=names.__getitem__)
    cores = fmean(cores for each, cores in programs if each == name)
    if len(names) > 1:
        return f"other programs ran on the hosts' CPUs, most often {name}, which used {units.cores(cores)}"
    return f"another program, {name}, used {units.cores(cores)}"


def because(check: str) -> str:
    """Return the clause of a check, as `requests failed`; its code for a check that this version lacks."""
    return CHECKS[check].because if check in CHECKS else check


def describe_findings(excluded: Sequence[ExcludedTrial]) -> str:
    """Return the findings that exclude trials, as clauses with the number of trials."""
    reasons = Counter(
        because(code) for trial in excluded for code in dict.fromkeys(trial.reason.removeprefix(INVALID).split(", "))
    )
    return "; ".join(f"{reason} (in {units.counted(times, 'trial')})" for reason, times in reasons.most_common())


def _share_of_trials(count: int, total: int) -> str:
    if count < total:
        return f"{count} of {units.counted(total, 'trial')}"
    return "the only trial" if total == 1 else f"all {total} trials"


UNWATCHED_CELL = "unwatched: {cell} uses an external server, which was not watched"

SAME_SERVER = "A/A: both cells have the same server, byte for byte, so any difference is noise"


def with_cell_notes(ratios: Iterable[Ratio], runs: Iterable[RunData]) -> list[Ratio]:
    """Return the ratios with notes on what their cells are."""
    every = [cell for run in runs for cell in run.manifest.cells]
    cells = {cell.cell_id: cell for cell in sorted(every, key=lambda cell: cell.is_unwatched)}
    annotated = []
    for ratio in ratios:
        names = dict.fromkeys(filter(None, (ratio.cell_id, ratio.baseline, ratio.relative_to)))
        unwatched = [UNWATCHED_CELL.format(cell=name) for name in names if name in cells and cells[name].is_unwatched]
        own = [cells[name] for name in dict.fromkeys((ratio.cell_id, ratio.baseline)) if name in cells]
        same = [SAME_SERVER] if len({cell.same_as or cell.cell_id for cell in own}) < len(own) else []
        noted = ratio.with_notes([*same, *unwatched], unwatched)
        annotated.append(noted.model_copy(update={"same_server": True}) if same else noted)
    return annotated


def with_response_notes(ratios: Iterable[Ratio], before: RunData, after: RunData) -> list[Ratio]:
    """Return the ratios of `after` to `before`, which may be one run, with notes on answers that differ."""
    annotated = []
    for ratio in ratios:
        found = response_mismatches(ratio.cell_id, ratio.baseline, after.answers, before.answers)
        if found and ratio.exclusions:
            excluded = [trial.trial_id for trial in ratio.exclusions]
            sides = after.comparable, before.comparable
            remaining = [answers_by_cell(side[~side["trial_id"].isin(excluded)]) for side in sides]
            if ratio.cell_id in remaining[0] and ratio.baseline in remaining[1]:
                found = response_mismatches(ratio.cell_id, ratio.baseline, *remaining)
        found = with_declared_reasons(found, after.manifest)
        serious = [each for each in found if each.is_serious]
        annotated.append(ratio.with_notes(mismatch_notes(found), mismatch_notes(serious)) if found else ratio)
    return annotated


CLOSED_LOOP = "closed loop: coordinated omission hides queueing"

_LATENCY = "latency_"
"""Prefix of the names of latency metrics."""


def latency_note(trials: pd.DataFrame) -> str:
    """Return how these latencies were measured: the loop, the correction, what a latency covers; in one line."""
    ways = dict.fromkeys(_way(*row) for row in trials[LATENCY_KIND].itertuples(index=False))
    return " / ".join(ways)


def _way(rate: float | None, start: str | None, corrected: object, covers: str | None) -> str:
    """Return how the latencies of a trial were measured.

    Without a target rate, a tool sends the next request only after an answer. Under one, times count from the sending
    unless the tool states otherwise.
    """
    loop = CLOSED_LOOP
    if not pd.isna(rate):
        hidden = "times from when a request was sent: its wait before that is hidden"
        loop = f"sent at a target rate, {'times from when a request was due' if start == 'due' else hidden}"
    parts = [loop]
    known = isinstance(corrected, bool | np.bool_)
    applied = "the tool's own correction applied" if known and corrected else "no correction applied"
    parts.append(applied if known else "the tool does not state a correction")
    coverage = {"request": "connecting not included", "connect+request": "connecting included"}
    return "; ".join([*parts, *([coverage[covers]] if covers in coverage else [])])


def notes_on_latencies(metrics: Iterable[str], runs: Iterable[RunData]) -> list[str]:
    """Return the note above ratios of latencies, over the measured trials of all runs; none without such a metric."""
    if not any(metric.startswith(_LATENCY) for metric in metrics):
        return []
    measured = pd.concat([run.latency_kinds for run in runs])
    return [] if measured.empty else [f"Latencies: {latency_note(measured)}."]


def with_latency_notes(ratios: Iterable[Ratio], before: RunData, after: RunData) -> list[Ratio]:
    """Return the ratios of `after` to `before`, with a note where latencies were measured in different ways."""
    ratios = list(ratios)
    if not any(ratio.metric.startswith(_LATENCY) for ratio in ratios):
        return ratios
    kinds = [run.latency_kinds for run in (before, after)]
    if len(pd.concat(kinds)[LATENCY_KIND].drop_duplicates()) <= 1:
        return ratios
    notes_before, notes_after = (
        {str(cell_id): latency_note(rows) for cell_id, rows in side.groupby("cell_id")} for side in kinds
    )

    def annotated(ratio: Ratio) -> Ratio:
        own, base = notes_after.get(ratio.cell_id), notes_before.get(ratio.baseline)
        if not ratio.metric.startswith(_LATENCY) or own == base or not own or not base:
            return ratio
        return ratio.with_notes([f"latencies were measured in different ways: {own}; baseline: {base}"])

    return [annotated(ratio) for ratio in ratios]
