"""Compared trials ran on different ground."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from benchkit.analysis.ground import MATTERS
from benchkit.analysis.verdicts.check import ALL, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.scenario.thresholds import Thresholds

_BLOCK = re.compile(r"block ([0-9]+)")
_SHOWN = 3


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> FoundInRun:
    """What each host was found to be before every block against what it was before the first."""
    looks = _looks(evidence.hosts)
    trials = evidence.trials
    if not looks:
        return {str(trial): Unchecked(why="nobody looked at the hosts between blocks") for trial in trials["trial_id"]}
    first = min(looks)
    found: dict[str, Found] = {}
    for block, facts in looks.items():
        changes = _changes(looks[first], facts)
        if changes:
            reason = _reason(changes, first)
            found |= {str(trial): [reason] for trial in trials.loc[trials["block"] == block, "trial_id"]}
    return found


CHECK = Check("drifted-host", "compared trials ran on different ground", of_run=of_run)

Facts = Mapping[tuple[str, str], str | None]
"""The value of a host's fact."""


def _looks(hosts: pd.DataFrame) -> dict[int, Facts]:
    """The facts that matter, of all hosts, by the block before which they were found."""
    looks: dict[int, dict[tuple[str, str], str | None]] = {}
    for host, at, fact, value in zip(hosts["host"], hosts["at"], hosts["fact"], hosts["value"], strict=True):
        block = _BLOCK.fullmatch(str(at))
        if block and MATTERS.fullmatch(str(fact)):
            looks.setdefault(int(block[1]), {})[str(host), str(fact)] = None if pd.isna(value) else str(value)
    return dict(looks)


def _changes(before: Facts, after: Facts) -> list[str]:
    return [
        f"the fact {fact} of host {host} was {before[host, fact] or 'absent'}, is {after[host, fact] or 'absent'}"
        for host, fact in sorted(before.keys() & after.keys())
        if before[host, fact] != after[host, fact]
    ]


def _reason(changes: list[str], first: int) -> Reason:
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return Reason(
        severity="suspect",
        metrics=ALL,
        seen="; ".join(changes[:_SHOWN]) + more,
        threshold=f"as before block {first}",
        means="Blocks before and after the change ran on different ground; ratios within a block still stand.",
        advice="Find who changed it, and run again with nobody else on the host.",
    )
