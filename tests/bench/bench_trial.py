"""Overhead of a trial beyond its warm-up and its measured window."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from statistics import median

import pytest

import benchkit

pytestmark = pytest.mark.lab

TRIALS = 20
LIMIT_S = 0.5


def test_overhead_of_a_warm_trial(tmp_path: Path) -> None:
    """Measure the median overhead of 20 trials of the quickstart, with servers started afresh: at most 0.5 s.

    The overhead is the time in the journal from the start of a trial to the line that it is stored, minus the warm-up
    and the duration that wrk reports.
    """
    program = str(Path(sys.executable).parent / "benchkit")
    environment = os.environ | {"BENCHKIT_STORE": str(tmp_path), "BENCHKIT_LAB": f"bench-{os.getpid()}"}
    settings = ("--scale", "smoke", "--set", f"blocks={TRIALS // 2 + 1}", "-q")
    subprocess.run([program, "lab", "up", "-q"], env=environment, check=True)
    try:
        subprocess.run([program, "run", "quickstart", *settings], env=environment, check=True)
    finally:
        subprocess.run([program, "lab", "down", "-q"], env=environment, check=True)
    trials = benchkit.load("trials", store=tmp_path).sort_values("trial_id")
    (run,) = (tmp_path / "runs").iterdir()
    whole = _wall_s(run / "journal.jsonl")
    warm = trials.iloc[2:]  # the first block also fills the hosts' caches
    overhead: dict[str, list[float]] = {}
    for trial in warm[["factor_stack", "trial_id", "duration_s"]].to_dict("records"):
        seconds = whole[trial["trial_id"]] - 1.0 - trial["duration_s"]
        overhead.setdefault(trial["factor_stack"], []).append(seconds)
    everything = [seconds for values in overhead.values() for seconds in values]
    for cell, values in overhead.items():
        print(f"{cell}: median {median(values):.3f} s, {min(values):.3f} to {max(values):.3f}, {len(values)} trials")
    print(
        f"overhead of a warm trial: median {median(everything):.3f} s of {len(everything)} trials (limit {LIMIT_S} s)"
    )
    assert len(everything) == TRIALS
    assert median(everything) <= LIMIT_S


def _wall_s(journal: Path) -> dict[str, float]:
    """Return the seconds from the start of each trial until it is stored."""
    started: dict[str, datetime] = {}
    wall: dict[str, float] = {}
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["at"])
        if event["event"] == "trial-started":
            started[event["trial_id"]] = at
        elif event["event"] == "trial-ended":
            wall[event["trial_id"]] = (at - started[event["trial_id"]]).total_seconds()
    return wall
