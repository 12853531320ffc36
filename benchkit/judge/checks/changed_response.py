"""Check changed-response: under load the server sent something else than before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.responses import ResponseKind, varying_traits
from benchkit.models.base import level_texts
from benchkit.models.request import is_expected
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProbeRound

COLUMNS = {"during the load": "probe_during_sha256", "after the load": "probe_after_sha256"}
"""Column of `trials` with the body of a probe at each time."""
FIRST, AGAIN = "probe_body_sha256", "probe_again_sha256"
"""Columns with the bodies of the two probes before the load."""

ADVICE = (
    "Send the request again after some load, as with curl, and read the server's log. If its responses are meant to "
    "change, declare that: --differs body, or `varies: true` in `differs` of the scenario."
)


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the later responses with the first one by kind, and with the expected ones.

    Bodies of the same kind are compared over all trials of a cell, which show whether they vary by themselves.
    """
    later = [each for each in evidence.record.probe_rounds if each.moment != "before"]
    if not later:
        return SkippedCheck(why="its responses were probed before the load alone")
    seen = [
        f"{clause} {'after' if each.moment == 'after' else 'during'} the load"
        for each in later
        for clause in _changes(each, evidence, thresholds)
    ]
    if seen:
        return [_finding("; ".join(dict.fromkeys(seen)), "the response before it")]
    if not any(each.responses for each in later):
        return SkippedCheck(why=f"no probe was answered after the load began: {later[-1].failure}")
    return ()


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Find the trials whose body changed under load, in cells whose bodies do not vary by themselves."""
    levels = {cell.cell_id: level_texts(cell.levels) for cell in evidence.manifest.cells}
    results: dict[str, CheckResult] = {}
    for cell_id, trials in evidence.trials.groupby("cell_id", sort=False):
        if "body" in varying_traits(evidence.manifest.scenario, levels.get(str(cell_id), {})):
            continue
        changed = {when: _changed(trials, column) for when, column in COLUMNS.items()}
        for trial_id in dict.fromkeys(trial_id for trial_ids in changed.values() for trial_id in trial_ids):
            when = " and ".join(time for time, trial_ids in changed.items() if trial_id in trial_ids)
            results[trial_id] = [_finding(f"another body {when}", "the body before it, unless it varies by itself")]
    return results


CHECK = Check(
    "changed-response",
    "under load the server sent something else than before it",
    of_trial=of_trial,
    of_run=of_run,
)


def _changes(later: ProbeRound, evidence: Evidence, thresholds: Thresholds) -> Iterator[str]:
    """Yield what changed in the responses of a later probe; the check `errors` counts failed responses of the load."""
    if not all(is_expected(response.status, {None}) for response in later.responses):
        return
    yield from later.faults
    varying = varying_traits(evidence.scenario, level_texts(evidence.record.levels))
    for first, response in zip(evidence.record.probes, later.responses, strict=False):
        kind, usual = ResponseKind.of_probe(response), ResponseKind.of_probe(first)
        yield from kind.differences(usual, thresholds.answer_size, varying)


def _changed(trials: pd.DataFrame, column: str) -> Sequence[str]:
    """Return the trials of a cell whose later body is not the first one; none where bodies vary by themselves.

    Bodies vary where the two probes before a load differ, or where both the first and the later bodies differ between
    blocks. A server that breaks in the same way in every block ends in the same body.
    """
    compared = trials[trials[FIRST].notna() & trials[column].notna()]
    vary_at_once = (compared[AGAIN].notna() & (compared[AGAIN] != compared[FIRST])).any()
    vary_in_time = all(len(set(compared[name])) > 1 for name in (FIRST, column))
    if vary_at_once or vary_in_time:
        return ()
    return tuple(map(str, compared.loc[compared[column] != compared[FIRST], "trial_id"]))


def _finding(seen: str, limit: str) -> Finding:
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=seen,
        threshold=f"limit: {limit}",
        means="The load measured other work than the responses that were compared show.",
        advice=ADVICE,
    )
