"""Faults during a run: each is reported, the run continues where it can, and no trace stays on the hosts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from tests.qualify.chaos.interference import (
    AB,
    HeldLoadTool,
    exhaust_memory,
    limited_memory,
    replaced_program,
)
from tests.qualify.chaos.kit import (
    BLOCKS,
    CELLS,
    SCENARIO,
    SHORT_TIMEOUTS,
    Bench,
    host_command,
    link_command,
    on_host,
    set_link,
)

BAD_AB = """#!/bin/sh
# ab, except in its first three trials.
[ "$1" = -V ] && exec /run/instead/real -V
count=$(($(cat /run/instead/count 2>/dev/null) + 1))
echo $count > /run/instead/count
case $count in
1) echo "apr_socket_connect(): broken on purpose" >&2; exit 104 ;;
2) trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 7777; done' & while :; do sleep 7777; done ;;
3) exec head -c 2000000 /dev/zero ;;
esac
exec /run/instead/real "$@"
"""


def with_host_fields(bench: Bench, host: str, **fields: object) -> Bench:
    """Return the bench with other values of a host's fields in its inventory."""
    inventory = json.loads(bench.inventory.read_text())
    inventory["hosts"][host] |= fields
    bench.inventory.write_text(json.dumps(inventory))
    return bench


def test_a_load_tool_that_crashes_hangs_or_floods_fails_only_its_trials(bench: Bench, lab: Lab) -> None:
    times: dict[str, object] = {
        "benchkit.loadtools.generators.generator:LONGEST_ANSWER_S": 8.0,  # more than a busy machine stands still
        "benchkit.loadtools.generators.generator:SLOWEST_RPS": 1000.0,
    }
    before = bench.snapshot()
    with replaced_program(lab, "load", AB, BAD_AB):
        tried = replace(bench, constants=times | {"benchkit.loadtools.generators.execution:STDOUT_BYTES": 1 << 20})
        result = tried.run(str(SCENARIO), "--set", "blocks=2", "--set", "load.histogram=false", "--json")
    assert result.code == 1, result.err
    summary = json.loads(result.out)
    assert (summary["status"], summary["trials"], summary["retries"]) == ("failed", 1, {})
    crashed, hung, flooded = summary["failures"].values()
    assert "load: ab failed with exit code 104: apr_socket_connect(): broken on purpose" in crashed
    assert "load: ab did not end within " in hung
    assert "bytes more than the limit of 1048576" in flooded
    failed = {cell["cell_id"]: cell["failed"] for cell in summary["cells"]}
    assert sorted(block for blocks in failed.values() for block in blocks) == [1, 1, 2]
    bench.wait_until_like(before)


def test_a_server_killed_for_lack_of_memory_fails_only_its_trial_with_that_reason(
    bench: Bench, lab: Lab, held: HeldLoadTool
) -> None:
    before = bench.snapshot()
    with limited_memory(lab, "sut", 200_000_000) as group:
        running = bench.start(str(SCENARIO), "--set", "blocks=1", "--json")
        held.wait(running)
        exhaust_memory(lab, "sut", group, "nethttp")
        held.release()
        result = running.wait()
    assert result.code == 1, result.err
    summary = json.loads(result.out)
    (why,) = summary["failures"].values()
    assert "sut: app (nethttp) ended during the trial with signal SIGKILL: its host ran out of memory" in why
    assert (summary["trials"], summary["retries"], summary["not_restored"]) == (1, {}, {})
    bench.wait_until_like(before)


READ_ONLY = "f=/proc/sys/net/core/somaxconn; mount --bind $f $f && mount -o remount,bind,ro $f"


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts of this user's lab have no links and no settings of their own")
def test_the_results_of_a_run_are_complete_although_hosts_cannot_be_restored(bench: Bench, lab: Lab) -> None:
    before = bench.snapshot()
    last = [[*host_command(lab, "sut"), "sh", "-c", READ_ONLY], link_command(lab, "load", up=False)]
    patient = {f"benchkit.hosts.agent_link:{name}_TIMEOUT_S": 8.0 for name in ("ANSWER", "HEARTBEAT")}
    tried = replace(bench, constants=SHORT_TIMEOUTS | patient, meanwhile={"trials-over": last})  # `sut` does answer
    try:
        result = tried.run(str(SCENARIO), "--set", "blocks=1", "--lease", "10", "--json")
        assert result.code == 1, result.err
        summary = json.loads(result.out)
        assert (summary["status"], summary["trials"], summary["failures"]) == ("done", 2, {})
        assert summary["not_restored"].keys() == {"sut"}
        assert "net.core.somaxconn is '" in summary["not_restored"]["sut"]
        assert "run `benchkit hosts restore`" in result.err
        assert summary["restore_unconfirmed"].keys() == {"load"}
        assert "`benchkit hosts check` shows the result" in result.err
    finally:
        set_link(lab, "load", up=True)
        on_host(lab, "sut", "umount /proc/sys/net/core/somaxconn")
    bench.cli("hosts", "restore", "-i", str(bench.inventory))  # unless its watchdog has done it by now
    bench.wait_until_like(before)


@pytest.fixture
def small_store(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A bench whose store is on a small disk."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(folder)], check=True)
    yield replace(bench, store=folder)
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_a_run_which_can_be_resumed_when_there_is_room(small_store: Bench) -> None:
    bench = small_store
    before = bench.snapshot()
    full = bench.run(str(SCENARIO))
    assert full.code == 1
    assert "No space left on device" in full.err
    assert f"resume the run with `benchkit run --resume {bench.folder().name}`" in full.err
    over = set(bench.progress().ended)
    assert not list(bench.store.rglob("*.partial"))
    bench.wait_until_like(before)
    subprocess.run(["mount", "-o", "remount,size=64m", str(bench.store)], check=True)
    done = bench.run("--resume", "latest", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["trials"] == CELLS * BLOCKS
    assert over <= bench.progress().ended.keys()


def test_an_error_names_the_host_with_a_full_disk(bench: Bench, lab: Lab) -> None:
    small = "mkdir -p /run/small && mount -t tmpfs -o size=4m tmpfs /run/small"
    on_host(lab, "sut", small)
    try:
        # Two short retries in place of a minute of them: the disk stays full.
        tried = replace(bench, constants={"benchkit.run.retries:TRIAL_PAUSES_S": (0.1, 0.1)})
        result = with_host_fields(tried, "sut", workdir="/run/small/work").run(str(SCENARIO), "--set", "blocks=1")
    finally:
        on_host(lab, "sut", "umount /run/small && rmdir /run/small")
    assert result.code == 1
    assert "sut: " in result.err
    assert "No space left on device" in result.err


def test_a_host_whose_sshd_was_killed_is_reconnected_and_the_trial_retried(
    bench: Bench, lab: Lab, held: HeldLoadTool
) -> None:
    doors = "pgrep -x benchkit-waiter || true"
    others = set(on_host(lab, "sut", doors).split())
    running = bench.start(str(SCENARIO), "--set", "blocks=1", "--json")
    held.wait(running)
    (door,) = set(on_host(lab, "sut", doors).split()) - others
    on_host(lab, "sut", f"kill -9 $(ps -o ppid= -p {door})")
    held.release()
    result = running.wait()
    assert result.code == 0, result.err
    summary = json.loads(result.out)
    assert (summary["status"], summary["trials"], len(summary["retries"])) == ("done", 2, 1)
    events = [event["event"] for event in bench.events()]
    assert (events.count("host-reconnected"), events.count("trial-failed")) == (1, 1)
