"""Faults in the middle of a run: what fails is said, what does not goes on, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.chaos.conftest import write_inventory
from tests.chaos.kit import IMPATIENT, SCENARIO, Bench, Zygote, difference, judge, plug, wait_for

pytestmark = pytest.mark.lab

BAD_AB = """#!/bin/sh
# ab, but for its third, fourth and fifth trial.
[ "$1" = -V ] && exec /run/bad/real -V
count=$(($(cat /run/bad/count 2>/dev/null) + 1))
echo $count > /run/bad/count
case $count in
3) echo "apr_socket_connect(): broken on purpose" >&2; exit 104 ;;
4) trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 7777; done' & while :; do sleep 7777; done ;;
5) exec yes flood ;;
esac
exec /run/bad/real "$@"
"""


def on_host(lab: Lab, host: str, script: str) -> str:
    """Run a shell script on a host, over plain SSH."""
    command = [*lab.ssh_command(host), "sh", "-s"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=30).stdout


def with_fields(bench: Bench, host: str, **fields: object) -> Bench:
    """The bench with an inventory in which fields of a host are others."""
    inventory = json.loads(bench.inventory.read_text())
    inventory["hosts"][host] |= fields
    bench.inventory.write_text(json.dumps(inventory))
    return bench


def test_a_load_tool_that_crashes_hangs_and_floods_fails_its_trials_alone(bench: Bench, lab: Lab) -> None:
    bad = f"mkdir -p /run/bad && cp /usr/bin/ab /run/bad/real && cat > /run/bad/ab << 'END'\n{BAD_AB}END\n"
    on_host(lab, "load", f"{bad}chmod 755 /run/bad/ab && mount --bind /run/bad/ab /usr/bin/ab")
    hasty: dict[str, object] = {"benchkit.load.crew:GRACE_S": 1.0, "benchkit.load.crew:SLOWEST_RPS": 1000.0}
    tried = replace(bench, constants=hasty)
    try:
        assert tried.run(str(SCENARIO), "--set", "blocks=1").code == 0
        before = tried.look()
        said = replace(tried, store=bench.store / "second").run(str(SCENARIO), "--json")
    finally:
        on_host(lab, "load", "umount /usr/bin/ab && rm -rf /run/bad")
    assert said.code == 1, said.err
    summary = json.loads(said.out)
    assert (summary["status"], summary["trials"], summary["retries"]) == ("failed", 3, {})
    crashed, hung, flooded = summary["failures"].values()
    assert "load: ab failed with exit code 104: apr_socket_connect(): broken on purpose" in crashed
    assert "load: ab did not end in time" in hung
    assert "ab did not end in time" in flooded or "bytes more than is kept" in flooded
    failed = {cell["cell_id"]: cell["failed"] for cell in summary["cells"]}
    assert sorted(block for blocks in failed.values() for block in blocks) == [1, 1, 2]
    assert difference(before, tried.look()) == ""


@pytest.fixture
def small_store(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A store on a disk with little room."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(folder)], check=True)
    yield replace(bench, store=folder)
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_a_run_cleanly_and_it_goes_on_when_there_is_room(small_store: Bench) -> None:
    bench = small_store
    before = bench.look()
    full = bench.run(str(SCENARIO))
    assert full.code == 1
    assert "No space left on device" in full.err
    assert f"`benchkit run --resume {bench.folder().name}` goes on" in full.err
    over = set(bench.progress().ended)
    assert not list(bench.store.rglob("*.partial"))
    assert difference(before, bench.look()).count("store/") == len(difference(before, bench.look()).splitlines())
    subprocess.run(["mount", "-o", "remount,size=64m", str(bench.store)], check=True)
    done = bench.run("--resume", "latest")
    assert done.code == 0, done.err
    judge(bench, over)


def test_a_full_disk_on_a_host_is_named(bench: Bench, lab: Lab) -> None:
    small = "mkdir -p /run/small && mount -t tmpfs -o size=4m tmpfs /run/small"
    on_host(lab, "sut", small)
    try:
        tried = with_fields(bench, "sut", workdir="/run/small/work")
        said = tried.run(str(SCENARIO))
    finally:
        on_host(lab, "sut", "umount /run/small && rmdir /run/small")
    assert said.code == 1
    assert "sut: " in said.err
    assert "No space left on device" in said.err


def test_a_host_whose_sshd_is_killed_is_had_back_and_the_trial_repeated(bench: Bench, lab: Lab) -> None:
    bench = replace(bench, constants=IMPATIENT)
    running = bench.start(str(SCENARIO), "--json")
    wait_for(running.journal(), "trial-started", 2)
    on_host(lab, "sut", "for door in $(pgrep -x benchkit-door); do kill -9 $(ps -o ppid= -p $door); done")
    said = running.wait()
    assert said.code == 0, said.err
    summary = json.loads(said.out)
    assert (summary["status"], summary["trials"]) == ("done", 6)
    events = [event["event"] for event in bench.events()]
    assert events.count("host-reconnected") == 1
    assert events.count("trial-failed") == len(summary["retries"]) <= 1
    judge(bench, set())


TWO_SERVERS = """
name: two-servers
title: Two servers
question: Does the loss of one leave the other?
roles: {sut: {}, other: {}, load: {}}
factors: {stack: [here, there]}
stacks:
  here: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080}}}
  there: {entry: app, services: {app: {backend: nethttp, role: other, listen: 8080}}}
load: {tool: ab, connections: 1, requests: 1000, warmup_s: 0}
blocks: 3
"""


@pytest.fixture
def three_hosts() -> Iterator[Lab]:
    """A lab of two servers and a load host."""
    hosts = tuple(LabHost(name=name, roles=(name,)) for name in ("sut", "other", "load"))
    made = up(LabSpec(name=f"pytest-{os.getpid()}-three", hosts=hosts))
    yield made
    down(made.name)


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts of this user's lab have no links of their own")
def test_the_loss_of_a_host_fails_its_cells_alone_and_they_can_be_made_up_for(
    three_hosts: Lab, zygote: Zygote, tmp_path: Path
) -> None:
    scenario = tmp_path / "two.yaml"
    scenario.write_text(TWO_SERVERS)
    bench = Bench(
        three_hosts, tmp_path / "store", write_inventory(three_hosts, tmp_path / "inv.yaml"), zygote, IMPATIENT
    )
    running = bench.start(str(scenario), "--reconnect", "2", "--lease", "3", "--json")
    wait_for(running.journal(), "trial-started", 2)
    plug(three_hosts, "other", plugged=False)
    said = running.wait()
    plug(three_hosts, "other", plugged=True)
    assert said.code == 1, said.err
    summary = json.loads(said.out)
    trials = {cell["cell_id"]: cell["trials"] for cell in summary["cells"]}
    assert trials["stack=here"] == 3
    assert trials["stack=there"] < 3
    assert len(summary["failures"]) == 3 - trials["stack=there"]
    assert all(why.startswith("other: ") for why in summary["failures"].values())
    made_up = bench.run("--resume", "latest", "--json")
    assert made_up.code == 0, made_up.err
    trials = {cell["cell_id"]: cell["trials"] for cell in json.loads(made_up.out)["cells"]}
    assert trials == {"stack=here": 3, "stack=there": 3}
