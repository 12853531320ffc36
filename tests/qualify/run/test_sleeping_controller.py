"""Runs whose controller sleeps, or is killed before its lease has ended."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

from benchkit.agent.settings import Sysctls
from benchkit.hosts.connections import connect_all
from tests.qualify.chaos.kit import SCENARIO, Bench, wait_for
from tests.support.needs import kernel_settings
from tests.support.waiting import wait_until

LEASE_S = 3.0
PAUSE = "benchkit.run.attempt:MAX_PAUSE_S"
KEY = "net.core.somaxconn"


def nobody_holds(bench: Bench) -> bool:
    """Return whether the watchdogs have restored the hosts."""
    result = bench.cli("hosts", "check", "-i", str(bench.inventory), "--json")
    return not any(host["holder"] for host in json.loads(result.out)["hosts"])


def test_a_block_is_repeated_after_a_sleep_beyond_the_lease_also_in_a_resumed_run(bench: Bench) -> None:
    """Sleep through the first trial of a block; reconnecting takes a moment only, so that the sleep is the pause."""
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
    assert {place.round for place in counting} - {1}, "the interrupted block counts in its next round"


@kernel_settings
def test_hosts_that_are_still_tuned_are_restored_before_a_run_is_resumed(bench: Bench) -> None:
    """Resume a run as when its connection failed and it is resumed from another shell before the lease has ended."""
    killed = bench.run(str(SCENARIO), "--set", "blocks=1", crash="ended")
    assert killed.code == -signal.SIGKILL
    wait_until(lambda: nobody_holds(bench))
    with connect_all(bench.lab.inventory()) as left_alone:
        left_alone.lock(bench.folder().name)
        sut = left_alone["sut"]
        (tuned,) = _events_of_tuning(bench)
        sut.call(Sysctls.write, {KEY: "65535"}, scope="run")
        resumed = bench.run("--resume", "latest")
        for host in tuple(left_alone):
            left_alone.drop(host.name)
    assert resumed.code == 0, resumed.err
    tuned_later = _events_of_tuning(bench)[-1]
    assert {**tuned_later, "at": None} == {**tuned, "at": None}, (
        "tuning finds the same values as at the start of the run"
    )


def _events_of_tuning(bench: Bench) -> list[dict[str, object]]:
    """Return the events in which the scenario's own setting was applied; reserved ports have events too."""
    return [event for event in bench.events() if event["event"] == "tuned" and KEY in event["outcomes"]]
