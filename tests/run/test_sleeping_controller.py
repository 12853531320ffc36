"""Runs that are left alone for a while: by a controller that sleeps, and by one that is gone before its lease is."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchkit.hosts.connections import connect_all
from tests.chaos.kit import SCENARIO, Bench, wait_for

pytestmark = pytest.mark.lab

LEASE_S = 3.0
PAUSE = "benchkit.run.attempt:MAX_PAUSE_S"
KEY = "net.core.somaxconn"


def wait_until(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def nobody_holds(bench: Bench) -> bool:
    """Whether the hosts were put back by their guardians."""
    result = bench.cli("hosts", "check", "-i", str(bench.inventory), "--json")
    return not any(host["holder"] for host in json.loads(result.out)["hosts"])


def test_a_block_in_which_the_controller_slept_beyond_its_lease_is_split_and_a_resumed_run_knows(bench: Bench) -> None:
    """Connecting again takes a moment only: it is the sleep that counts. The block is cut in its first trial."""
    bench = replace(bench, constants={PAUSE: LEASE_S})
    running = bench.start(str(SCENARIO), "--lease", str(LEASE_S), "--set", "blocks=2")
    wait_for(running.journal(), "trial-started")
    os.kill(running.pid, signal.SIGSTOP)
    wait_until(lambda: nobody_holds(bench))
    os.kill(running.pid, signal.SIGCONT)
    wait_until(lambda: any("r2." in trial for trial in bench.progress().ended))
    running.kill()
    running.wait()
    assert 2 in bench.progress().rounds.values()
    resumed = bench.run("--resume", "latest", "--json")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["trials"] == 4
    progress = bench.progress()
    counting = [progress.positions[trial] for trial in progress.ended.keys() - progress.interrupted]
    assert sorted((place.block, place.cell_id) for place in counting) == sorted(
        (block, f"connections={connections}") for block in (1, 2) for connections in (1, 4)
    )
    assert {place.round for place in counting} - {1}, "the block that was cut counts in a round of its own"


def test_hosts_that_are_still_tuned_are_put_back_before_a_run_is_taken_up_again(bench: Bench) -> None:
    """As when the link was cut, and somebody takes the run up from another shell within the lease."""
    killed = bench.run(str(SCENARIO), "--set", "blocks=1", crash="ended")
    assert killed.code == -signal.SIGKILL
    wait_until(lambda: nobody_holds(bench))
    with connect_all(bench.lab.inventory()) as left_alone:
        left_alone.hold(bench.folder().name)
        sut = left_alone["sut"].changes
        (tuned,) = (event for event in bench.events() if event["event"] == "tuned" and event["host"] == "sut")
        sut.write({KEY: "65535"})
        resumed = bench.run("--resume", "latest")
        for host in tuple(left_alone):
            left_alone.give_up(host.name)
    assert resumed.code == 0, resumed.err
    again = [event for event in bench.events() if event["event"] == "tuned" and event["host"] == "sut"][-1]
    assert {**again, "at": None} == {**tuned, "at": None}, "it found what the run found when it began"
