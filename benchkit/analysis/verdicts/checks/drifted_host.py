"""Compared trials ran on different ground."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pandas as pd

from benchkit.analysis.run_differences import MATTERS
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.models.thresholds import Thresholds

_PROGRAM = re.compile(r"executables\.(.+)")
"""Files of programs, by their sizes and times: they tell a host from itself only, not one from another."""
_BLOCK = re.compile(r"block ([0-9]+)")
_END = math.inf
"""After the last block, when nothing was put back yet: what has changed by then changed during that block, or before."""
_SHOWN = 3


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """What each host was found to be before every block, and after the last, against what it was before the first."""
    looks = _looks(evidence.hosts)
    trials = evidence.trials
    if not looks:
        return {
            str(trial): SkippedCheck(why="nobody looked at the hosts between blocks") for trial in trials["trial_id"]
        }
    first, last = min(looks), max(block for block in looks if block != _END)
    found: dict[str, CheckResult] = {}
    for look in sorted(looks):
        changes = _changes(looks[first], looks[look])
        block = last if look == _END else look
        if changes:
            reason = _reason(changes, first)
            of_block = map(str, trials.loc[trials["block"] == block, "trial_id"])
            found |= {trial: [reason] for trial in of_block if trial not in found}
    return found


CHECK = Check("drifted-host", "compared trials ran on different ground", of_run=of_run)

Facts = Mapping[tuple[str, str], str | None]
"""The value of a host's fact."""


def _looks(hosts: pd.DataFrame) -> dict[float, Facts]:
    """The facts that matter, of all hosts, by the block before which they were found; none where no block was begun."""
    looks: dict[float, dict[tuple[str, str], str | None]] = {}
    for host, at, fact, value in zip(hosts["host"], hosts["at"], hosts["fact"], hosts["value"], strict=True):
        block = _BLOCK.fullmatch(str(at))
        if (block or at == "end") and (MATTERS.fullmatch(str(fact)) or _PROGRAM.fullmatch(str(fact))):
            when = float(block[1]) if block else _END
            looks.setdefault(when, {})[str(host), str(fact)] = None if pd.isna(value) else str(value)
    return dict(looks) if any(when != _END for when in looks) else {}


def _changes(before: Facts, after: Facts) -> list[str]:
    """What differs between two looks at the hosts that both have; facts may come and go."""
    there = {host for host, _ in before} & {host for host, _ in after}
    return [
        f"{_named(fact)} of host {host} was {before.get((host, fact)) or 'absent'}, "
        f"is {after.get((host, fact)) or 'absent'}"
        for host, fact in sorted(before.keys() | after.keys())
        if host in there and before.get((host, fact)) != after.get((host, fact))
    ]


def _named(fact: str) -> str:
    program = _PROGRAM.fullmatch(fact)
    return f"the program {program[1]}" if program else f"the fact {fact}"


def _reason(changes: list[str], first: float) -> Finding:
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return Finding(
        severity="suspect",
        metrics=ALL,
        seen="; ".join(changes[:_SHOWN]) + more,
        threshold=f"as before block {first:.0f}",
        means="Blocks before and after the change ran on different ground; ratios within a block still stand.",
        advice="Find who changed it, and run again with nobody else on the host.",
    )
