"""Cost of profiles: reading one here and by a command, compared with `go tool pprof -top`, and taking one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchkit.cli.app import app
from benchkit.lab.lab import Lab
from benchkit.profiles.profile_file import read_profile
from benchkit.profiles.shares import shares
from benchkit.profiles.top import top

PROFILE = Path(__file__).parents[1] / "fixtures" / "profiles" / "nethttp-go1.26-busy.pb.gz"
BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Environment that lets Python store compiled modules, as it does by default."""
PAIRS = 25


def seconds(argv: Sequence[str]) -> float:
    """Return the wall time of a whole process."""
    started = time.perf_counter()
    subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def test_reading_a_profile_and_computing_table_and_shares_takes_at_most_30_ms() -> None:
    data = PROFILE.read_bytes()
    assert len(data) > 20_000
    times = []
    for _ in range(50):
        started = time.perf_counter()
        profile = read_profile(data)
        top(profile)
        shares(profile)
        times.append(time.perf_counter() - started)
    median_ms = statistics.median(times) * 1e3
    print(
        f"\n{len(data)} bytes, {len(profile.samples)} samples: median {median_ms:.1f} ms, first {times[0] * 1e3:.1f} ms"
    )
    assert median_ms <= 30
    assert times[0] <= 0.030


def test_profile_top_takes_at_most_twice_as_long_as_pprof() -> None:
    ours, theirs = [BENCHKIT, "profile", "top", str(PROFILE)], ["go", "tool", "pprof", "-top", str(PROFILE)]
    seconds(ours), seconds(theirs)  # the first start of each compiles modules
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(PAIRS)]
    ratio = statistics.median(our / their for our, their in pairs)
    our_ms, their_ms = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    print(
        f"\nbenchkit profile top {our_ms:.0f} ms, go tool pprof -top {their_ms:.0f} ms: "
        f"median ratio {ratio:.2f} of {PAIRS} pairs"
    )
    assert ratio <= 2.0


BLOCKS, LOST = 10, 0.5
"""Pairs of each cell, and the share of them that verdicts may exclude on an otherwise idle machine."""
COST = """\
name: profiler-cost
title: profiled and not
question: What does a profiler take?
factors: {stack: [pprof, perf]}
stacks:
  pprof:
    entry: server
    services: {server: {backend: nethttp, role: sut, listen: 8080}}
  perf:
    entry: server
    services:
      app: {backend: nethttp, role: sut, listen: "127.0.0.1:9000"}
      server: {backend: nginx, role: sut, listen: 8080, upstream: app}
load: {tool: wrk, connections: 64, duration_s: 1}
blocks: 1
profile: {blocks: 10, duration_s: 4, services: [server]}
"""


def test_profiler_cost_of_a_server_with_its_interval(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "profiler-cost.yaml"
    scenario.write_text(COST)
    monkeypatch.setenv("BENCHKIT_LAB", lab.name)
    at = ["--store", str(tmp_path / "store"), "--json"]
    run = CliRunner().invoke(app, ["run", str(scenario), "-q", *at], catch_exceptions=False)
    assert run.exit_code == 0
    found = json.loads(CliRunner().invoke(app, ["profile", "cells", "latest", *at], catch_exceptions=False).stdout)
    costs = [cost for cost in found["profiler_cost"] if cost["metric"] == "rps" and cost["cell_id"] is not None]
    for cost in costs:
        print(
            f"\n{cost['cell_id']}: RPS of profiled trials relative to those without a profiler {cost['ratio']:.3f}, "
            f"95 % interval {cost['low']:.3f} to {cost['high']:.3f}, over {cost['pairs']} pairs"
        )
    assert len(costs) == 2, found["profiler_cost"]
    assert all(cost["low"] is not None for cost in costs), found["profiler_cost"]
    assert all(cost["pairs"] > LOST * BLOCKS for cost in costs), "verdicts excluded most of the trials"
