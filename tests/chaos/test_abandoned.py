"""A controller that vanishes: within its lease and a little, its hosts are as they were."""

from __future__ import annotations

import json
import signal

import pytest

from benchkit.lab.lab import Lab
from tests.chaos.kit import SCENARIO, Bench, plug
from tests.chaos.meddling import Held

pytestmark = pytest.mark.lab

LEASE_S = 3.0
SOON_S = 30.0
"""However busy the machine is; `make chaos` holds it to the lease and 5 s."""


def put_back(bench: Bench) -> list[str]:
    """What `hosts check` says was put back, all hosts together."""
    said = bench.cli("hosts", "check", "-i", str(bench.inventory), "--json")
    return [text for host in json.loads(said.out)["hosts"] for text in host["put_back"]]


def test_a_killed_controller_leaves_hosts_as_they_were(bench: Bench) -> None:
    before = bench.look()
    killed = bench.run(str(SCENARIO), "--set", "load.requests=1000000", crash="under-load")
    assert killed.code == -signal.SIGKILL
    bench.wait_until_as(before, SOON_S)
    told = put_back(bench)
    assert any("process nethttp" in text and "net.core.somaxconn (was " in text for text in told), told
    restored = bench.cli("hosts", "restore", "-i", str(bench.inventory))
    assert "was put back already" in restored.out
    assert put_back(bench) == []


def test_a_controller_that_is_cut_off_leaves_hosts_as_they_were(bench: Bench, lab: Lab, held: Held) -> None:
    before = bench.look()
    running = bench.start(str(SCENARIO), "--lease", str(LEASE_S))
    held.wait(running)
    assert "nethttp" in bench.look()["sut"]
    try:
        for host in lab.hosts:
            plug(lab, host.name, plugged=False)
        running.kill()
        bench.wait_until_as(before, SOON_S)  # seen from within: nobody can tell the hosts anything
    finally:
        for host in lab.hosts:
            plug(lab, host.name, plugged=True)
    running.wait()
    told = put_back(bench)
    assert len(told) == len(lab.hosts)
    assert all(f"nothing was heard from the controller for {LEASE_S:g} s" in text for text in told)
    assert any("process nethttp" in text for text in told)
    bench.cli("hosts", "restore", "-i", str(bench.inventory))
