"""Check drifted-host: compared trials ran under different conditions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pandas as pd

from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.run_differences import BLOCK_STAGE, RELEVANT_FACTS
from benchkit.models.thresholds import Thresholds
from benchkit.units import first_of

_PROGRAM = re.compile(r"executables\.(.+)")
"""Sizes and times of program files: comparable within one host, not between hosts."""
_END = math.inf
"""After the last block, before settings are restored: a change seen here happened during that block."""
_SHOWN_CHANGES = 3


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Compare the facts of each host before every block, and after the last, with those before the first."""
    facts_at = _facts_by_block(evidence.hosts)
    trials = evidence.trials
    if not facts_at:
        return {
            str(trial_id): SkippedCheck(why="host facts were not read between blocks")
            for trial_id in trials["trial_id"]
        }
    first, last = min(facts_at), max(block for block in facts_at if block != _END)
    results: dict[str, CheckResult] = {}
    for read_at in sorted(facts_at):
        changes = _changes(facts_at[first], facts_at[read_at])
        block = last if read_at == _END else read_at
        if changes:
            finding = _finding(changes, first)
            of_block = map(str, trials.loc[trials["block"] == block, "trial_id"])
            results |= {trial_id: [finding] for trial_id in of_block if trial_id not in results}
    return results


CHECK = Check("drifted-host", "compared trials ran under different conditions", of_run=of_run, reads="hosts")

Facts = Mapping[tuple[str, str], str | None]
"""Values by host and fact."""


def _facts_by_block(hosts: pd.DataFrame) -> dict[float, Facts]:
    """Return the relevant facts of all hosts by the block before which they were read; empty if no block was begun."""
    by_block: dict[float, dict[tuple[str, str], str | None]] = {}
    for host, at, fact, value in zip(hosts["host"], hosts["at"], hosts["fact"], hosts["value"], strict=True):
        block = BLOCK_STAGE.fullmatch(str(at))
        if (block or at == "end") and (RELEVANT_FACTS.fullmatch(str(fact)) or _PROGRAM.fullmatch(str(fact))):
            when = float(block[1]) if block else _END
            by_block.setdefault(when, {})[str(host), str(fact)] = None if pd.isna(value) else str(value)
    return dict(by_block) if any(when != _END for when in by_block) else {}


def _changes(before: Facts, after: Facts) -> list[str]:
    """Return the differences of hosts that both readings have; a fact may be absent from one."""
    common = {host for host, _ in before} & {host for host, _ in after}
    return [
        f"{_fact_title(fact)} of host {host} was {before.get((host, fact)) or 'absent'}, "
        f"is {after.get((host, fact)) or 'absent'}"
        for host, fact in sorted(before.keys() | after.keys())
        if host in common and before.get((host, fact)) != after.get((host, fact))
    ]


def _fact_title(fact: str) -> str:
    program = _PROGRAM.fullmatch(fact)
    return f"the program {program[1]}" if program else f"the fact {fact}"


def _finding(changes: list[str], first: float) -> Finding:
    return Finding(
        severity="suspect",
        metrics=ALL,
        seen=first_of(changes, _SHOWN_CHANGES, "; "),
        threshold=f"limit: unchanged since block {first:.0f}",
        means="Blocks before and after the change ran under different conditions; ratios within a block stay valid.",
        advice="Find out who changed it, and run again while the host is not used by others.",
    )
