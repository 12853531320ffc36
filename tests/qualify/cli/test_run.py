"""The main job from the command line on the lab: real sshd, nginx and h2load."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.agent.operations import ProcessSpec, SocketAddress
from benchkit.agent.undo import Undo
from benchkit.hosts.connections import Hosts, connect, connect_all
from benchkit.lab.lab import Lab
from benchkit.models.design import compared_cell
from tests.support.cli.fixtures import CommandResult
from tests.support.needs import separate_hosts

Cli = Callable[..., "CommandResult"]
Inventory = Callable[..., Path]

CELLS = ("stack=go", "stack=nginx-go")
TRIALS = {"calibrate": 1, "measure": 2, "held": 2}
"""Trials of each cell in the quickstart of two blocks, by kind."""
AT_FULL_SPEED = ("--set", "load.rate=null")
"""Options for runs without load curves and trials at a held rate."""


@pytest.fixture(scope="module")
def watched(lab: Lab) -> Iterator[Hosts]:
    """A connection to the hosts for all tests here: a new one takes seconds where the machine is busy."""
    with connect_all(lab.inventory()) as hosts:
        yield hosts


@pytest.fixture
def undisturbed(lab: Lab, watched: Hosts) -> Iterator[None]:
    """Check that a test leaves no process, port, sysctl or trial file on any host."""
    if lab.state.mode == "loopback":  # its hosts are this machine, on which anything may happen meanwhile
        yield
        return
    before = _state(watched)
    yield
    deadline = time.monotonic() + 50
    while (now := _state(watched)) != before:  # an agent may be just ending
        assert time.monotonic() < deadline, (before, now)
        time.sleep(0.1)


def _state(hosts: Hosts) -> list[dict[str, Any]]:
    return [
        {
            "processes": sorted(
                line
                for line in host.processes.run(["ps", "-eo", "args="]).stdout.decode().splitlines()
                if not re.search(r"ps -eo|python|sshd", line)
            ),
            "ports": sorted(
                line.split()[3] for line in host.processes.run(["ss", "-Hlnt"]).stdout.decode().splitlines()
            ),
            "sysctls": host.processes.run(["sysctl", "net.core", "net.ipv4"]).stdout.decode().splitlines(),
            "records": [record.text for record in host.call(Undo.traces).records if record.state != "mine"],
            "trials": host.processes.run(["ls", "trials"]).stdout,
        }
        for host in hosts
    ]


def require_bytes(known: pd.DataFrame) -> None:
    """Check the bytes of each answer, of trials of which no pause of the machine ended a slice.

    12 are body and 141 headers, of Go alone and through nginx; at held rates the body counts.
    """
    assert {"measure", "held"} <= set(known["kind"])
    expected = known["kind"].map({"calibrate": 153, "measure": 153, "held": 12})
    assert ((known["bytes_total"] / known["requests"] - expected).abs() < 1).all()


@pytest.mark.usefixtures("undisturbed")
def test_quickstart_from_plan_to_report(cli: Cli, inventory: Inventory, tmp_path: Path, lab: Lab) -> None:
    hosts = inventory()
    planned = cli("plan", "quickstart", "-i", hosts, "--scale", "smoke", "--json")
    assert planned.code == 0
    order = [(each["kind"], compared_cell(each["cell_id"])) for each in planned.document()["order"]]
    assert Counter(order) == {(kind, cell): count for kind, count in TRIALS.items() for cell in CELLS}

    result = cli("run", "quickstart", "-i", hosts, "--scale", "smoke", "--json")
    assert result.code == 0, result.err
    summary = result.document()
    assert (summary["status"], summary["trials"], summary["failures"]) == ("done", 10, {})

    store = tmp_path / "store"
    frame = benchkit.load("trials", store=store)
    assert list(frame.sort_values("trial_id")[["kind", "cell_id"]].itertuples(index=False, name=None)) == order
    assert (frame["run_id"] == summary["run_id"]).all()
    assert (frame["requests"] > 0).all()
    assert not frame[["errors_timeout", "non_2xx"]].fillna(0).any(axis=None)  # h2load does not tell other kinds
    assert (frame["overhead_s"] > 0).all()
    require_bytes(frame[frame["bytes_total"].notna()])
    assert (frame.loc[frame["kind"] != "calibrate", "server_cpu_s_per_request"] > 0).all()
    assert set(frame["verdict"]) <= {"valid", "suspect", "invalid"}

    records = [json.loads(path.read_text()) for path in (store / "runs").glob("*/raw/*/trial.json")]
    assert {(r["probe"]["status"], r["probe"]["header_bytes"], r["probe"]["body_bytes"]) for r in records} == {
        (200, 141, 12)
    }
    # Servers of a cell run once in a block, also for its phase at a held rate; those of a load curve ran before.
    assert Counter(Counter(r["services"][-1]["pid"] for r in records).values()) == {1: 2, 2: 4}
    facts = benchkit.load("hosts", store=store)
    somaxconn = facts[(facts["fact"] == "sysctls.net.core.somaxconn") & (facts["host"] == "sut")].set_index("at")[
        "value"
    ]
    if lab.state.mode == "namespaces":  # without root no kernel setting is applied
        assert somaxconn["tuned"] == somaxconn["end"] == "65535"  # sampled before anything is restored
        assert somaxconn["start"] != "65535"
    assert somaxconn["restored"] == somaxconn["start"]
    programs = facts[facts["fact"].str.startswith("executables.")].set_index(["at", "host", "fact"])["value"]
    assert set(programs["block 2"].index) == {("sut", "executables.nginx"), ("load", "executables.h2load")}
    assert programs["block 1"].equals(programs["end"])

    listed = cli("results", "list", "--json").document()
    assert [(run["run_id"], run["status"]) for run in listed] == [(summary["run_id"], "done")]
    assert len(cli("results", "trials", "latest", "--json").document()) == 10
    report = Path(cli("report", "latest", "--json").document()["report"])
    assert "stack=nginx-go" in report.read_text() or "nginx-go" in report.read_text()
    assert {path.name for path in (report.parent / "figures").iterdir()} >= {"rps.svg", "rps.png"}

    second = cli("results", "reparse", "latest", "--json")
    assert second.document()["trials"] == 10
    rebuilt = benchkit.load("trials", store=store)
    pd.testing.assert_frame_equal(
        frame.sort_values("trial_id", ignore_index=True), rebuilt.sort_values("trial_id", ignore_index=True)
    )
    assert cli("results", "rm", "latest", "--yes").code == 0
    assert benchkit.load("trials", store=store).empty
    assert lab.inventory().not_isolated or lab.state.mode == "loopback"

    # A second deployment changes nothing, and sends no bytes.
    assert cli("run", "quickstart", "-i", hosts, "--scale", "smoke", "--set=blocks=1", *AT_FULL_SPEED, "-q").code == 0
    (run,) = (store / "runs").iterdir()
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    deployed = [(event["changed"], event["sent_bytes"]) for event in events if event["event"] == "deployed"]
    assert deployed == [([], 0)] * 2


@pytest.mark.usefixtures("undisturbed")
def test_a_port_in_use_names_its_owner(cli: Cli, inventory: Inventory, lab: Lab) -> None:
    with connect(lab.inventory().named("sut")) as sut:
        squatter = sut.processes.start(ProcessSpec(["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"]))
        sut.sockets.wait_open(SocketAddress("tcp", "127.0.0.1", 8080), 60, squatter)
        settings = ("--set", "blocks=1", "--set", "factors.stack=[go]", *AT_FULL_SPEED)
        options = ("-i", inventory(), "--scale", "smoke", *settings, "--json")
        result = cli("run", "quickstart", *options, constants={"benchkit.run.retries:TRIAL_PAUSES_S": (0.1, 0.1)})
        sut.processes.stop([squatter])
    assert result.code == 1
    assert result.document()["status"] == "failed"
    assert [len(whys) for whys in result.document()["retries"].values()] == [2]
    (why,) = result.document()["failures"].values()
    assert why.startswith("sut: a port is taken: port 8080 by ")
    assert f"(pid {squatter.pid})" in why
    assert "retries failed for 0.2 s" in why
    assert "--retry-failed`" in why
    repeated = cli("run", "--resume", "latest", "--retry-failed", "-i", inventory(), "--json")
    assert repeated.code == 0, repeated.err
    assert (repeated.document()["trials"], repeated.document()["failures"]) == (1, {})
    again = cli("run", "--resume", "latest", "--retry-failed", "-i", inventory())
    assert again.code == 2
    assert "this run is finished: nothing is left to do: no trial of it failed" in again.err


@separate_hosts
@pytest.mark.usefixtures("undisturbed")
def test_a_load_host_without_its_tool_says_how_to_get_it(cli: Cli, inventory: Inventory, lab: Lab) -> None:
    with connect(lab.inventory().named("load")) as host:
        load = host.processes
        assert load.run(["mount", "--bind", "/dev/null", "/usr/bin/h2load"]).ok
        try:
            for command in ("plan", "run"):
                result = cli(command, "quickstart", "-i", inventory(), "--scale", "smoke")
                assert result.code == 1
                assert "load: h2load is missing" in result.err
                assert "benchkit hosts prepare quickstart" in result.err
            prepared = cli("hosts", "prepare", "quickstart", "-i", inventory())
            assert prepared.code == 1
            assert "apt-get install" in prepared.out
            assert " nghttp2-client" in prepared.out
        finally:
            assert load.run(["umount", "/usr/bin/h2load"]).ok
    assert cli("hosts", "prepare", "quickstart", "-i", inventory()).out == (
        "the hosts have everything that the scenario needs\n"
    )


def test_unsupported_cells_are_reported_and_do_not_fail_the_run(cli: Cli, inventory: Inventory) -> None:
    result = cli(
        "run", "quickstart", "-i", inventory(), "--scale", "smoke", "--set", "blocks=1", *AT_FULL_SPEED,
        "--set", "factors.cpus=[1, 64, all]", "--set", "stacks.go.services.app.gomaxprocs=$cpus",
        "--set", "stacks.go.services.app.cpus=$cpus", "--set", "factors.stack=[go]", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    reasons = {cell["cell_id"]: cell["unsupported"] for cell in result.document()["cells"]}
    assert reasons["stack=go,cpus=1"] is None
    assert reasons["stack=go,cpus=64"] == "cpus 64: sut has 1 CPU for this role"
    if len(os.sched_getaffinity(0)) == 2:
        assert reasons["stack=go,cpus=all"] == "on these hosts the same as stack=go,cpus=1"


def test_a_run_without_a_runnable_cell_is_refused_before_anything_is_stored(
    cli: Cli, inventory: Inventory, tmp_path: Path
) -> None:
    too_many = ("--set", "factors.stack=[go]", "--set", "stacks.go.services.app.cpus=64")
    for command in ("run", "plan"):
        result = cli(command, "quickstart", "-i", inventory(), "--scale", "smoke", *too_many)
        assert result.code == 2, result.err
        assert "these hosts support none of its cells: cpus 64: sut has 1 CPU for this role" in result.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.usefixtures("undisturbed")
def test_ctrl_c_restores_hosts_and_keeps_finished_trials(
    program: list[str], environment: dict[str, str], inventory: Inventory, tmp_path: Path, signals: int
) -> None:
    running = subprocess.Popen(
        [
            *(*program, "run", "quickstart", "-i", str(inventory()), "--scale", "smoke"),
            *("--set", "blocks=20", *AT_FULL_SPEED),
        ],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[2/"):
            break
    time.sleep(0.7)  # within the second block, on a machine that is not busy
    # The second one comes during the clean-up. Two of one kind might arrive as one.
    for number in (signal.SIGINT, signal.SIGTERM)[:signals]:
        running.send_signal(number)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert err.count("stopping services and restoring hosts") == signals - 1
    (run,) = (tmp_path / "store" / "runs").iterdir()
    kept = len(benchkit.load("trials", store=tmp_path / "store"))
    assert 2 <= kept < 40
    assert err.splitlines()[-1] == (
        f"interrupted: services are stopped and hosts restored; run {run.name} keeps {kept} trials; "
        f"`benchkit run --resume {run.name}` resumes it"
    )
    assert json.loads((run / "manifest.json").read_text())["status"] == "interrupted"


def test_hosts_check_shows_facts_and_limits(cli: Cli, inventory: Inventory, lab: Lab, watched: Hosts) -> None:
    # Tests of SSH keep a server up for the session.
    of_others = {record.text for record in watched["sut"].call(Undo.traces).records if record.state == "other"}
    result = cli("hosts", "check", "-i", inventory(), "--json")
    assert result.code == 0
    hosts = {host["host"]: host for host in result.document()["hosts"]}
    assert hosts["sut"]["facts"]["hostname"] == ("sut" if lab.state.mode == "namespaces" else socket.gethostname())
    assert set(hosts["sut"]["facts"]["cpus"]).isdisjoint(hosts["load"]["facts"]["cpus"]) or os.cpu_count() == 1
    assert hosts["load"]["facts"]["programs"]["wrk"]["path"] == "/usr/bin/wrk"
    deadline = time.monotonic() + 50
    while found := set(hosts["sut"]["records"]) - of_others:  # of an agent that is just ending
        assert time.monotonic() < deadline, found
        hosts = {host["host"]: host for host in cli("hosts", "check", "-i", inventory(), "--json").document()["hosts"]}
    restored = cli("hosts", "restore", "-i", inventory())
    assert restored.code == 0
    assert all(
        line == "nothing to restore" or line.endswith(": it belongs to another run, which is not finished")
        for line in restored.out.splitlines()
    )
