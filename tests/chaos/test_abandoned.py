"""A controller that vanishes: within its lease and a little, its hosts are as they were."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import pytest

from benchkit.lab.lab import Lab
from tests.chaos.kit import IMPATIENT, SCENARIO, Bench, difference, plug, wait_for

pytestmark = pytest.mark.lab

LEASE_S = 3.0
AND_A_LITTLE_S = 5.0


@pytest.fixture
def warm(bench: Bench) -> Bench:
    """After a run that was not disturbed, so that what hosts keep for the next one is there."""
    said = bench.run(str(SCENARIO), "--set", "blocks=1")
    assert said.code == 0, said.err
    return bench


def as_before(bench: Bench, before: dict[str, str], within_s: float) -> None:
    """Wait until the hosts are as they were before."""
    deadline = time.monotonic() + within_s
    while (now := bench.look()) != before:
        assert time.monotonic() < deadline, difference(before, now)
        time.sleep(0.2)


def put_back(bench: Bench) -> list[str]:
    """What `hosts check` says was put back, all hosts together."""
    said = bench.cli("hosts", "check", "-i", str(bench.inventory), "--json")
    return [text for host in json.loads(said.out)["hosts"] for text in host["put_back"]]


def test_a_killed_controller_leaves_hosts_as_they_were(warm: Bench) -> None:
    before = warm.look()
    killed = warm.run(str(SCENARIO), "--set", "load.requests=100000", crash="under-load")
    assert killed.code == -signal.SIGKILL
    as_before(warm, before, AND_A_LITTLE_S)
    told = put_back(warm)
    assert any("process nethttp" in text and "net.core.somaxconn (was " in text for text in told), told
    restored = warm.cli("hosts", "restore", "-i", str(warm.inventory))
    assert "was put back already" in restored.out
    assert put_back(warm) == []


def test_a_controller_that_is_cut_off_leaves_hosts_as_they_were(warm: Bench, lab: Lab) -> None:
    before = warm.look()
    running = warm.start(str(SCENARIO), "--lease", str(LEASE_S), "--set", "load.requests=1000000")
    wait_for(running.journal(), "trial-started")
    while "nethttp" not in warm.look()["sut"]:
        time.sleep(0.05)
    try:
        for host in lab.hosts:
            plug(lab, host.name, plugged=False)
        running.kill()
        time.sleep(LEASE_S + AND_A_LITTLE_S)
    finally:
        for host in lab.hosts:
            plug(lab, host.name, plugged=True)
    running.wait()
    assert difference(before, warm.look()) == ""
    told = put_back(warm)
    assert len(told) == len(lab.hosts)
    assert all(f"nothing was heard from the controller for {LEASE_S:g} s" in text for text in told)
    assert any("process nethttp" in text for text in told)
    warm.cli("hosts", "restore", "-i", str(warm.inventory))


def test_a_cut_of_seconds_ends_in_a_whole_run(warm: Bench, lab: Lab) -> None:
    bench = replace(warm, constants=IMPATIENT)
    running = bench.start(str(SCENARIO), "--json")
    run = running.journal()
    wait_for(run, "trial-started", 2)
    plug(lab, "sut", plugged=False)
    time.sleep(4)
    plug(lab, "sut", plugged=True)
    said = running.wait()
    assert said.code == 0, said.err
    summary = json.loads(said.out)
    assert (summary["status"], summary["trials"]) == ("done", 6)
    events = [json.loads(line) for line in run.read_text().splitlines()]
    lost = [event for event in events if event["event"] in ("host-reconnected", "trial-failed")]
    assert len(summary["retries"]) == len({event["trial_id"] for event in lost if event["event"] == "trial-failed"})
