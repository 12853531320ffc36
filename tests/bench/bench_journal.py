"""Cost of the journal for a trial: its lines, each synced before the next step begins."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from benchkit.store.journal import Journal, TrialEnded, TrialStarted

TRIALS = 500
LIMIT_S = 0.005


def test_the_journal_of_a_trial(tmp_path: Path) -> None:
    """Measure the median over 500 trials of their two synced lines: at most 5 ms on the disk of the store."""
    took = []
    with Journal(tmp_path / "journal") as journal:
        for number in range(TRIALS):
            trial_id, cell_id = f"r20260101-000000-abcd.b{number:03}.p001", "stack=nginx-go,connections=64"
            began = time.perf_counter()
            journal.append(TrialStarted(trial_id=trial_id, cell_id=cell_id, block=number, position=1))
            journal.append(TrialEnded(trial_id=trial_id, cell_id=cell_id, wall_s=6.5))
            took.append(time.perf_counter() - began)
    print(f"\njournal: median {median(took) * 1000:.2f} ms per trial, longest {max(took) * 1000:.2f} ms")
    assert median(took) <= LIMIT_S
