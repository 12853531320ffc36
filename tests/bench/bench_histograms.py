"""Reduction of per-request output to a histogram, compared with pandas, and merging of many histograms."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchkit.loadtools.generators.generator import REDUCER
from benchkit.loadtools.hey.command import TEMPLATE
from benchkit.loadtools.hey.output import ROWS as HEY_ROWS
from benchkit.loadtools.reducer_output import measurement, read
from benchkit.models.histogram import Histogram, merge_histograms
from benchkit.services.go_build import build

ROWS = 5_000_000
PAIRS = 7
HISTOGRAMS = 1_000
PERCENTS = (50.0, 90.0, 99.0, 99.9, 99.99)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five million rows in the format of benchkit's template for hey: response times of a busy server, with a tail."""
    path = tmp_path_factory.mktemp("hey") / "rows.csv"
    random = np.random.default_rng(2)
    with path.open("w") as file:
        file.write(TEMPLATE.splitlines()[0] + "\n")
        for second in range(50):
            times_s = random.lognormal(-6.2, 0.9, ROWS // 50).clip(1e-4, 9.0)
            offsets_s = np.sort(random.random(ROWS // 50)) + second
            pairs = zip(times_s.tolist(), offsets_s.tolist(), strict=True)
            file.writelines(f"{took:.9f},200,{offset:.6f}\n" for took, offset in pairs)
    return path


def reduced(command: Sequence[str | Path], out: Path) -> float:
    """Return the wall time in seconds to reduce the rows in a process and read its file, `out`."""
    started = time.perf_counter()
    subprocess.run(command, check=True)
    histogram = measurement(read(out.read_bytes()), HEY_ROWS).histograms["raw"]
    for percent in PERCENTS:
        histogram.percentile(percent)
    return time.perf_counter() - started


def most_memory(command: Sequence[str | Path]) -> int:
    """Return the peak memory of a process in bytes.

    A process inherits this value from its parent, so a small process has to start it. Then the result is right from
    about 10 MB on.
    """
    program = (
        "import os, subprocess, sys; pid = subprocess.Popen(sys.argv[1:]).pid; "
        "_, status, usage = os.wait4(pid, 0); print(usage.ru_maxrss); sys.stdout.flush(); os._exit(status >> 8)"
    )
    output = subprocess.run([sys.executable, "-ISc", program, *command], stdout=subprocess.PIPE, check=True)
    return int(output.stdout) * (1 if sys.platform == "darwin" else 1024)


def by_pandas(rows: Path) -> float:
    """Return the wall time in seconds to read the file and compute quantiles in a process that has imported pandas."""
    started = time.perf_counter()
    _times_s(rows).quantile([percent / 100 for percent in PERCENTS])
    return time.perf_counter() - started


def _times_s(rows: Path) -> pd.Series[float]:
    return pd.read_csv(rows, skiprows=1, names=("time_s", "status", "offset_s"))["time_s"]


def test_rows_to_a_histogram_faster_than_pandas_in_a_tenth_of_the_memory(rows: Path) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    out, size = Path(f"{rows}.json"), rows.stat().st_size
    command: list[str | Path] = [build(REDUCER, goos=sys.platform, goarch=machine), "-tool", "hey", rows]
    memory = most_memory(command)
    by_pandas(rows)  # warms up imports and caches for both
    pairs = [(reduced(command, out), by_pandas(rows)) for _ in range(PAIRS)]
    ratios = sorted(their / our for our, their in pairs)
    our_s, their_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(
        f"\n{ROWS:,} rows of hey ({size / 1e6:.0f} MB) to a histogram of {out.stat().st_size / 1e3:.0f} kB: "
        f"median {our_s:.2f} s, pandas {their_s:.2f} s: "
        f"{statistics.median(ratios):.1f} times as fast ({ratios[0]:.1f} to {ratios[-1]:.1f} in {PAIRS} pairs), "
        f"at most {memory / 1e6:.1f} MB of memory, {memory / size:.1%} of the file"
    )
    exact_s = _times_s(rows)
    histogram = measurement(read(out.read_bytes()), HEY_ROWS).histograms["raw"]
    assert json.loads(out.read_bytes())["rows"] == histogram.total == ROWS
    for percent in PERCENTS:
        assert histogram.percentile(percent) == pytest.approx(exact_s.quantile(percent / 100), rel=1e-3)
    assert statistics.median(ratios) >= 1
    assert memory <= size / 10


def test_a_thousand_histograms_merged() -> None:
    random = np.random.default_rng(3)
    histograms = []
    for _ in range(HISTOGRAMS):
        times = random.lognormal(8.5, 0.8, 200_000).astype(np.int64).clip(1, 1_900_000)
        values, counts = np.unique(times, return_counts=True)
        histograms.append(Histogram.from_microseconds(values, counts, digits=4))
    seconds = []
    for _ in range(PAIRS):
        started = time.perf_counter()
        whole = merge_histograms(histograms)
        seconds.append(time.perf_counter() - started)
    buckets = statistics.mean(len(histogram.indexes) for histogram in histograms)
    print(
        f"\n{HISTOGRAMS:,} histograms of {buckets:,.0f} buckets merged: median {statistics.median(seconds):.3f} s "
        f"({min(seconds):.3f} to {max(seconds):.3f})"
    )
    assert whole.total == HISTOGRAMS * 200_000
    assert statistics.median(seconds) <= 0.5
