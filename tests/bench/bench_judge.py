"""Time to judge trials: each alone, and all of a run of 500 cells and 10 blocks together."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchkit.comparison.compare import compare
from benchkit.judge.verdicts.judgement import judge_trial
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import VerdictRow
from benchkit.models.thresholds import Thresholds
from benchkit.run.judge import judge_stored_run
from benchkit.store.row_builders import host_rows
from benchkit.store.store import Store
from benchkit.store.tables import load
from tests.bench.large_run import BLOCKS, CELLS, REPEATS, save_large_run
from tests.support.judge.builders import build_trial

INVALID = 0.1
"""Share of trials with a reason against them."""
LOAD: dict[str, Any] = {"server_cpu_s_per_request": 1e-5, "connections": 64}
ANSWER: dict[str, Any] = {
    "probe_status": 200,
    "probe_header_bytes": 141,
    "probe_body_bytes": 12,
    "probe_body_sha256": "0",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Store with a run of 500 cells in 10 blocks, each trial judged alone."""
    made = Store(tmp_path)
    generator = np.random.default_rng(1)
    rps = 50_000 * generator.lognormal(0, 0.05, (BLOCKS, CELLS))
    tables, rows = save_large_run(made, "r1", {"rps": rps}, constants={**LOAD, **ANSWER, "verdict": "valid"})
    invalid = generator.choice([row.trial_id for row in rows], round(INVALID * len(rows)), replace=False)
    tables.replace(
        "verdicts",
        [
            VerdictRow(
                trial_id=str(trial_id),
                check="noisy-host",
                severity="invalid",
                metrics=("rps",),
                seen="so much",
                threshold="less",
                text="So much.",
                scope="trial",
            )
            for trial_id in invalid
        ],
    )
    facts = [host_rows("sut", ["sut"], f"block {block}", RecordedFacts(kernel="6.1")) for block in range(1, BLOCKS + 1)]
    tables.replace("hosts", *facts)
    return made


def test_judging_and_comparing_a_run_of_500_cells_takes_at_most_3_seconds(store: Store) -> None:
    """Judge every trial alone from its record and samples, then all together, and compute the ratios."""
    run = store.run("r1")
    times: dict[str, list[float]] = {part: [] for part in ("judged alone", "judged together", "compared")}
    for _ in range(REPEATS):
        each_s = [_judged_s() for _ in range(CELLS * BLOCKS)]
        moments = [time.perf_counter()]
        judge_stored_run(store, run)
        moments.append(time.perf_counter())
        found = compare("r1", store=store.path)
        moments.append(time.perf_counter())
        durations = (sum(each_s), *(end - start for start, end in pairwise(moments)))
        for part, seconds in zip(times.values(), durations, strict=True):
            part.append(seconds)
    assert len(found.ratios) == CELLS - CELLS // 5
    assert load("trials", store=store.path)["verdict"].value_counts()["invalid"] == round(INVALID * CELLS * BLOCKS)
    whole = [sum(parts) for parts in zip(*times.values(), strict=True)]
    summary = ", ".join(f"{part} {statistics.median(each):.2f} s" for part, each in times.items())
    print(
        f"\n{CELLS} cells, {BLOCKS} blocks, judged and compared: median {statistics.median(whole):.2f} s, at most "
        f"{max(whole):.2f} s of {REPEATS} ({summary})"
    )
    assert statistics.median(whole) <= 3.0


def _judged_s() -> float:
    """Return the time in seconds to judge one trial whose samples are not in memory, as happens during a run."""
    evidence = build_trial()
    started = time.perf_counter()
    judgement = judge_trial(evidence, Thresholds())
    seconds = time.perf_counter() - started
    assert judgement.verdict == "valid"
    return seconds
