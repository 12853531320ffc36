"""A run on two testbeds whose controller is killed in the middle of a block of each, and that is then resumed."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchkit
from benchkit.agent.common import read_bytes
from benchkit.lab.lab import down, up
from benchkit.lab.spec import parse_shape
from tests.qualify.chaos.conftest import write_inventory
from tests.qualify.chaos.kit import SCENARIO, SOON_S, Bench, CommandServer, Running, diff_snapshots
from tests.support.needs import separate_hosts
from tests.support.waiting import wait_until

pytestmark = separate_hosts

ON_TESTBEDS = SCENARIO.with_name("testbeds.yaml")
BLOCKS, CELLS = 4, 3


@pytest.fixture
def rack(command_server: CommandServer, stores: Path) -> Iterator[Bench]:
    """A bench on two testbeds of two hosts each."""
    made = up(parse_shape(f"pytest-{os.getpid()}-killed", [], [], shared=False, testbeds=2), temporary=True)
    folder = stores / "rack"
    folder.mkdir()
    try:
        yield Bench(made, folder / "store", write_inventory(made, folder / "inventory.yaml"), command_server)
    finally:
        command_server.end_all()
        down(made.name)


def host_states(bench: Bench) -> dict[str, str]:
    """Return processes, ports, kernel settings and temporary files of every host, without benchkit's own folder."""
    states = {}
    for host, text in bench.snapshot().items():
        processes, ports, settings, _, temporary = text.split("---\n")
        states[host] = processes + ports + settings + temporary
    return states


def unfinished_blocks(bench: Bench) -> dict[int, set[str]]:
    """Return the ended trials of each block that has some, but not all of its trials."""
    progress = bench.progress()
    by_block: dict[int, set[str]] = {}
    for trial_id in progress.ended:
        by_block.setdefault(progress.positions[trial_id].block, set()).add(trial_id)
    return {block: ended for block, ended in by_block.items() if len(ended) < CELLS}


def kill_within_two_blocks(running: Running) -> None:
    """Kill the command when two blocks have ended trials and lack others.

    It is stopped before that is certain: until it is killed, the last trial of a block could end.
    """
    running.journal()
    deadline = time.monotonic() + 2 * SOON_S
    while not is_stopped_within_two_blocks(running):
        assert time.monotonic() < deadline, running.err.read_text()
        time.sleep(0.02)
    running.kill()
    assert running.wait().code == -signal.SIGKILL


def have_threads_stopped(pid: int) -> bool:
    """Return whether no thread of a process runs any more."""
    stats = [read_bytes(f"{task}/stat") or b"" for task in Path(f"/proc/{pid}/task").glob("*")]
    return {stat.rpartition(b") ")[2][:1] for stat in stats} <= {b"T", b"Z", b"X", b""}


def is_stopped_within_two_blocks(running: Running) -> bool:
    """Stop the command if two blocks are unfinished; return whether they still are when it has stopped."""
    if len(unfinished_blocks(running.bench)) < 2:
        return False
    os.kill(running.pid, signal.SIGSTOP)
    wait_until(lambda: have_threads_stopped(running.pid))
    if len(unfinished_blocks(running.bench)) >= 2:
        return True
    os.kill(running.pid, signal.SIGCONT)
    return False


def test_the_blocks_that_were_interrupted_on_both_testbeds_are_repeated_whole(rack: Bench) -> None:
    before = host_states(rack)
    kill_within_two_blocks(rack.start(str(ON_TESTBEDS)))
    ended, unfinished = set(rack.progress().ended), unfinished_blocks(rack)
    interrupted = set().union(*unfinished.values())
    records = rack.stored_run().records()
    assert {record.testbed for record in records if record.trial_id in interrupted} == {"a", "b"}

    done = rack.run("--resume", "latest")
    assert done.code == 0, done.err
    counts = Counter(event["trial_id"] for event in rack.events() if event["event"] == "trial-ended")
    assert max(counts.values()) == 1, "a trial ended twice"
    assert ended <= counts.keys(), "a trial was lost"
    assert interrupted <= rack.progress().interrupted
    trials = benchkit.load("trials", store=rack.store)
    measured = trials[trials["kind"] == "measure"]
    assert Counter(zip(measured["block"], measured["cell_id"], strict=True)) == {
        (block, f"connections={number}"): 1 for block in range(1, BLOCKS + 1) for number in (1, 2, 4)
    }
    assert (measured.groupby("block")["testbed"].nunique() == 1).all(), "a block was divided"
    assert ended - interrupted <= set(measured["trial_id"]), "a finished block was repeated"
    assert not interrupted & set(measured["trial_id"]), "a block was not repeated whole"
    deadline = time.monotonic() + SOON_S
    while left := diff_snapshots(before, host_states(rack)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
