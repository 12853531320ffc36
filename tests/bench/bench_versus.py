"""Time from a shell with two servers to a sentence about them, how much of it is no load, and how precise it is."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

from benchkit.loadtools.load_shares import pauses, turn_s
from benchkit.models.trial import TrialRecord
from benchkit.store.store import Store
from tests.bench.real_runs import ratio_of, table
from tests.support.paths import TESTS

SERVER = TESTS / "support" / "servers" / "plain.js"
LIMIT_S, NO_LOAD_LIMIT_S = 75.0, 8.0
LARGEST_HALF_WIDTH = 0.01
"""Half-width of the log-ratio of the rates of two servers that use up their CPU, on a quiet machine."""


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
    sentence, took_s = next(each for each in lines if "other handled " in each[0])
    load_s = sum(_load_s(record) for run in Store(store).runs() for record in run.records())
    ratio = ratio_of(store, Store(store).run("latest").run_id)
    assert ratio.low is not None, ratio.reason
    assert ratio.high is not None
    half_width = math.log(ratio.high / ratio.low) / 2
    rows = [
        ("from the shell to the sentence", f"{took_s:.1f} s", f"{LIMIT_S:g} s"),
        ("of that no load", f"{took_s - load_s:.1f} s", f"{NO_LOAD_LIMIT_S:g} s"),
        ("with the report", f"{lines[-1][1]:.1f} s", ""),
        ("half-width of the log-ratio", f"{half_width:.2%}", f"{LARGEST_HALF_WIDTH:.0%}"),
    ]
    print(f"{table(('', 'measured', 'limit'), rows)}\n{sentence}")
    assert took_s <= LIMIT_S
    assert took_s - load_s <= NO_LOAD_LIMIT_S
    assert half_width <= LARGEST_HALF_WIDTH


def _load_s(record: TrialRecord) -> float:
    """Return the time in which load tools ran: warm-up and window, or turns of slices."""
    turns_s = sum(turn_s(pauses(record.generators[0].load), each.duration_s) for each in record.slices)
    return record.warmed_up_s + (turns_s or record.window_s)
