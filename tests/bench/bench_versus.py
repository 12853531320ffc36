"""The time from a shell with two servers to a sentence about them, and the part of it that is no load."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchkit.loadtools.load_shares import pauses, turn_s
from benchkit.models.trial import TrialRecord
from benchkit.store.store import Store
from tests.bench.real_runs import table

SERVER = Path(__file__).parents[1] / "cli" / "servers" / "plain.js"
LIMIT_S, NO_LOAD_LIMIT_S = 75.0, 8.0


def test_two_executables_become_a_sentence_with_an_interval(tmp_path: Path) -> None:
    for name, rounds in (("one", 0), ("other", 2000)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexec node {SERVER} $1 {rounds}\n")
        (tmp_path / name).chmod(0o755)
    store = tmp_path / "store"
    began_s = time.monotonic()
    with subprocess.Popen(
        [Path(sys.executable).with_name("benchkit"), "versus", "./one {port}", "./other {port}"],
        cwd=tmp_path,
        env={**os.environ, "BENCHKIT_STORE": str(store)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [(line, time.monotonic() - began_s) for line in process.stdout]
    assert process.returncode == 0
    sentence, took_s = next(each for each in lines if each[0].startswith("other serves "))
    load_s = sum(_load_s(record) for run in Store(store).runs() for record in run.records())
    rows = [
        ("from the shell to the sentence", f"{took_s:.1f} s", f"{LIMIT_S:g} s"),
        ("of that no load", f"{took_s - load_s:.1f} s", f"{NO_LOAD_LIMIT_S:g} s"),
        ("with the report", f"{lines[-1][1]:.1f} s", ""),
    ]
    print(f"{table(('', 'measured', 'limit'), rows)}\n{sentence}")
    assert " to " in sentence, "it has an interval"
    assert took_s <= LIMIT_S
    assert took_s - load_s <= NO_LOAD_LIMIT_S


def _load_s(record: TrialRecord) -> float:
    """Return the time in which load tools ran: warm-up and window, or turns of slices."""
    turns_s = sum(turn_s(pauses(record.generators[0].load), each.duration_s) for each in record.slices)
    return record.warmed_up_s + (turns_s or record.window_s)
