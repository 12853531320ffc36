"""Servers that others deploy: hooks with real shell scripts on the lab, and their processes watched."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import benchkit
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.connections import connect, connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.scenario.experiment import Experiment
from benchkit.store.store import Store
from tests.support.builders import experiment, load
from tests.support.paths import TESTS
from tests.support.run.opening import open_run
from tests.support.waiting import wait_until

PORT = 18091
SCRIPT = f"{TESTS}/support/servers/deploy.sh"
READY = "import os, urllib.request; urllib.request.urlopen(os.environ['BENCHKIT_URL'], timeout=1)"
WORKING = 200_000
"""Rounds of a request that takes about a millisecond."""


@pytest.fixture
def log(sut: Host) -> Iterator[str]:
    """A file on the host `sut`, which its hooks append to."""
    yield f"{sut.workdir}/hooks.log"
    sut.processes.run(("rm", "-f", f"{sut.workdir}/hooks.log"))


def deployed(lab: Lab, log: str, **options: object) -> Experiment:
    """Return an experiment of a server that scripts deploy on `sut`, with two levels of work."""
    server = {
        "backend": "external",
        "url": f"http://{lab.inventory().named('sut').address}:{PORT}",
        "deploy": {"run": ["sh", SCRIPT, "start", str(PORT), log], "on": "sut", "within_s": 20},
        "ready": {"run": [sys.executable, "-c", READY], "within_s": 30},
        "cleanup": {"run": ["sh", SCRIPT, "stop", log], "on": "sut", "within_s": 20},
        "watch": [{"pattern": f"node .*plain[.]js {PORT}"}],
        **options,
    }
    return experiment(
        stacks={"one": {"entry": "app", "services": {"app": server}}},
        factors={"work": [0, WORKING]},
        roles={"sut": {}, "load": {}},
        load=load(connections=2),
        blocks=2,
    )


def run(lab: Lab, scenario: Experiment, store: Store) -> RunOutcome:
    with connect_all(lab.inventory()) as hosts, open_run(scenario, hosts, store) as opened:
        return execute(opened)


def running(host: Host) -> bytes:
    return host.processes.run(("pgrep", "-f", f"[p]lain.js {PORT}")).stdout


def test_hooks_deploy_each_cell_and_its_processes_are_watched(lab: Lab, sut: Host, log: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    outcome = run(lab, deployed(lab, log), store)
    assert (outcome.status, outcome.failures) == ("done", {})
    lines = sut.processes.run(("cat", log)).stdout.decode().split("\n")[:-1]
    assert [line.partition(" ")[0] for line in lines] == ["deploy", "cleanup"] * 4
    assert {tuple(line.split(" ")[1:]) for line in lines} == {
        (f"work={work}", str(block)) for work in (0, WORKING) for block in (1, 2)
    }
    assert running(sut) == b""
    trials = benchkit.load("trials", store=tmp_path)
    cost = trials.groupby("factor_work")["server_cpu_s_per_request"].median()
    assert cost[WORKING] > 2 * cost[0] > 0, "CPU time is that of the watched process"
    assert (trials["server_memory_bytes"] > 0).all()
    unchecked = benchkit.load("unchecked", store=tmp_path)
    assert "service-restarted" not in set(unchecked["check"])
    assert not any("not watched" in why for why in unchecked["why"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deploy": {"run": ["sh", "-c", "echo no such image; exit 3"], "on": "sut"}}, "exit code 3.*no such image"),
        ({"deploy": {"run": ["sh", "-c", "echo here; exit 4"]}}, "this machine.*exit code 4.*here"),
        ({"deploy": {"run": ["sleep", "60"], "within_s": 0.2}}, "did not end within 0.2 s"),
        ({"deploy": {"run": ["/no/such/program"]}}, "cannot start /no/such/program"),
        ({"ready": {"run": ["false"], "within_s": 0.6}}, "not within 0.6 s: exit code 1"),
        ({"watch": [{"unit": "benchkit-test-nowhere.service"}]}, "has no processes to watch"),
    ],
)
def test_a_hook_that_fails_is_named_and_everything_is_cleaned_up(
    lab: Lab, sut: Host, log: str, tmp_path: Path, *, options: dict[str, object], message: str
) -> None:
    cleanup = {"run": ["sh", "-c", f"echo cleaned >>{log}; sh {SCRIPT} stop {log} || true"], "on": "sut"}
    outcome = run(lab, deployed(lab, log, cleanup=cleanup, **options), Store(tmp_path))
    assert len(outcome.failures) >= 2, "one for each cell"
    for failure in outcome.failures.values():
        assert all(part in str(failure).replace("\n", " ") for part in message.split(".*"))
    cleaned = sut.processes.run(("grep", "-c", "^cleaned", log)).stdout
    assert int(cleaned) == len(outcome.failures), "once for each trial"
    assert running(sut) == b""


def test_an_interrupted_hook_is_killed_and_cleaned_up(lab: Lab, sut: Host, log: str, tmp_path: Path) -> None:
    cleanup = {"run": ["sh", "-c", f"echo cleaned >>{log}"], "on": "sut"}
    started = tmp_path / "started"
    sleeping = {"run": ["sh", "-c", f"echo $$ >{started}; sleep 300"]}

    def interrupt() -> None:
        wait_until(lambda: started.exists() and bool(started.read_text()))
        _thread.interrupt_main()

    with ThreadPoolExecutor() as pool:
        pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(lab, deployed(lab, log, deploy=sleeping, cleanup=cleanup), Store(tmp_path / "store"))
    assert sut.processes.run(("cat", log)).stdout == b"cleaned\n"
    assert not Path(f"/proc/{started.read_text().strip()}").exists()


def test_a_host_cleans_up_when_its_controller_is_lost(lab: Lab, sut: Host, log: str) -> None:
    other = connect(lab.inventory().named("sut"))
    other.call(Undo.expect_cleanup, ["sh", "-c", f"echo $WHO >>{log}"], {"WHO": "watchdog"}, 10, "cleanup of a trial")
    agent = other.processes.run(("sh", "-c", "echo $PPID")).stdout.decode().strip()
    assert sut.processes.run(("kill", "-9", agent)).ok
    wait_until(lambda: sut.processes.run(("cat", log)).stdout == b"watchdog\n")
    with pytest.raises(HostError):
        other.compare_clocks()


def test_a_cleanup_that_fails_is_an_error_and_stays_on_record(sut: Host, log: str) -> None:
    sut.call(Undo.expect_cleanup, ["sh", "-c", f"test -e {log} || {{ echo not there; exit 7; }}"], {}, 10, "cleanup 1")
    with pytest.raises(HostError, match="exit code 7: not there"):
        sut.changes.run_cleanup("cleanup 1", 20)
    sut.processes.run(("touch", log))
    sut.changes.run_cleanup("cleanup 1", 20)
    assert not [each for each in sut.call(Undo.traces).records if each.kind == "cleanup"]
