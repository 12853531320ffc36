"""A server that works in children which nobody waits for: its CPU time per request covers the whole work."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import benchkit
from benchkit.lab.cgroups import usable_hierarchies
from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

FORK_FACTORS = (0.5, 1.9)
"""Limits of the CPU time with children, as multiples of that in one process.

A fork of Python copies pages, for 1 ms beside 10 ms of work. Without the children a fifth of it would be counted, and
with each of them counted twice, 2.2 times as much. The limits leave room for a core that falls to 0.6 of its speed.
"""


@pytest.mark.skipif(not usable_hierarchies(), reason="this user can create no control groups here")
def test_cpu_time_per_request_includes_children_that_nobody_waits_for(
    cli: Callable[..., CommandResult], environment: dict[str, str]
) -> None:
    server = f"{sys.executable} {TESTS}/support/servers/forking.py {{port}}"
    done = cli(
        "versus", server, f"{server} fork", "--names", "inline,fork", "--connections", 2, "--tool", "wrk",
        "--blocks", 3, "--duration", 30, "--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}",
    )  # fmt: skip
    assert done.code in (0, 1), done.err
    trials = benchkit.load("trials", store=environment["BENCHKIT_STORE"], scenario="versus")
    # A slow core only adds CPU time, so that the cheapest trials are the ones to compare.
    costs = trials.groupby("factor_stack")[["server_cpu_s_per_request", "main_process_cpu_s_per_request"]].min()
    whole, of_first = costs["server_cpu_s_per_request"], costs["main_process_cpu_s_per_request"]
    least, most = FORK_FACTORS
    assert least < whole["fork"] / whole["inline"] < most
    assert of_first["fork"] < 0.5 * whole["fork"], "most of its work is done in children"
    why = cli("why", "--json")
    assert why.code == 0, why.err
    parts = [each for each in why.document()["components"] if each["level"] == "service"]
    assert {each["component"] for each in parts} == {"all"}, "nothing is left over, nor too much"
