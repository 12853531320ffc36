"""`make chaos`: connections that fail, for a second and permanently."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.qualify.chaos.conftest import write_inventory
from tests.qualify.chaos.interference import HeldLoadTool, hold_load_tool
from tests.qualify.chaos.kit import SCENARIO, SHORT_TIMEOUTS, Bench, CommandServer, set_link

LEASE_S = 3.0


def test_hosts_of_a_disconnected_controller_are_restored(bench: Bench, lab: Lab, held: HeldLoadTool) -> None:
    before = bench.snapshot()
    running = bench.start(str(SCENARIO), "--lease", str(LEASE_S))
    held.wait(running)
    assert "nethttp" in bench.snapshot()["sut"]
    try:
        for host in lab.hosts:
            set_link(lab, host.name, up=False)
        running.kill()
        bench.wait_until_like(before)  # snapshots do not need the links
    finally:
        for host in lab.hosts:
            set_link(lab, host.name, up=True)
    running.wait()
    reports = bench.restored_changes()
    assert len(reports) == len(lab.hosts)
    assert all(f"no heartbeat from the controller for {LEASE_S:g} s" in text for text in reports)
    assert any("process nethttp" in text for text in reports)
    bench.cli("hosts", "restore", "-i", str(bench.inventory))


def test_a_trial_is_retried_after_a_disconnection_of_a_second(bench: Bench, lab: Lab, held: HeldLoadTool) -> None:
    running = replace(bench, constants=SHORT_TIMEOUTS).start(str(SCENARIO), "--set", "blocks=1", "--json")
    held.wait(running)
    set_link(lab, "sut", up=False)
    held.release()
    time.sleep(1)  # the length of the disconnection is what is tested
    set_link(lab, "sut", up=True)
    result = running.wait()
    assert result.code == 0, result.err
    summary = json.loads(result.out)
    assert (summary["status"], summary["trials"]) == ("done", 2)
    events = [event["event"] for event in bench.events()]
    assert events.count("trial-failed") == len(summary["retries"]) == events.count("host-reconnected")


TWO_SERVERS = """
name: two-servers
title: Two servers
question: Does the loss of one leave the other?
roles: {sut: {}, other: {}, load: {}}
factors: {stack: [here, there]}
stacks:
  here: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080}}}
  there: {entry: app, services: {app: {backend: nethttp, role: other, listen: 8080}}}
load: {tool: ab, connections: 1, request_count: 200, warmup_s: 0, timeout_s: 2}
blocks: 2
"""


@pytest.fixture
def three_hosts() -> Iterator[Lab]:
    """A lab of two servers and a load host."""
    hosts = tuple(LabHost(name=name, roles=(name,)) for name in ("sut", "other", "load"))
    made = up(LabSpec(name=f"pytest-{os.getpid()}-three", hosts=hosts))
    yield made
    down(made.name)


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts of this user's lab have no links of their own")
def test_a_lost_host_fails_only_its_cells_which_a_resumed_run_completes(
    three_hosts: Lab, command_server: CommandServer, tmp_path: Path
) -> None:
    scenario = tmp_path / "two.yaml"
    scenario.write_text(TWO_SERVERS)
    inventory = write_inventory(three_hosts, tmp_path / "inv.yaml")
    bench = Bench(three_hosts, tmp_path / "store", inventory, command_server, SHORT_TIMEOUTS)
    with hold_load_tool(three_hosts, "load") as held:
        running = bench.start(str(scenario), "--reconnect", "1", "--lease", "4", "--json")
        held.wait(running)
        set_link(three_hosts, "other", up=False)
        held.release()
        result = running.wait()
        set_link(three_hosts, "other", up=True)
    assert result.code == 1, result.err
    summary = json.loads(result.out)
    trials = {cell["cell_id"]: cell["trials"] for cell in summary["cells"]}
    assert trials == {"stack=here": 2, "stack=there": 0}
    assert len(summary["failures"]) == 2
    assert any(why.startswith("other: ") for why in summary["failures"].values())
    assert summary["not_seen_put_back"].keys() == {"other"}
    made_up = bench.run("--resume", "latest", "--json")
    assert made_up.code == 0, made_up.err
    trials = {cell["cell_id"]: cell["trials"] for cell in json.loads(made_up.out)["cells"]}
    assert trials == {"stack=here": 2, "stack=there": 2}
