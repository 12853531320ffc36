"""Servers of users with the usual faults, on a lab host: each has a clear message, and nothing of it stays."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, SocketAddress
from benchkit.agent.undo import Undo
from benchkit.errors import HostError, InputError, ServiceError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.sockets import PortTakenError
from benchkit.lab.lab import Lab
from benchkit.plan.planner import draft_plan, make_plan
from benchkit.services import deploy
from benchkit.services.deploy import RunningService
from benchkit.services.service import Service
from tests.support.builders import read_scenario
from tests.support.paths import TESTS

FAULTY = TESTS / "support/services/faulty_server.py"
PORT = 8790


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[Hosts]:
    with connect_all(lab.inventory()) as connected:
        yield connected


def plan_service(hosts: Hosts, folder: Path, **options: object) -> Service:
    app = {"backend": "command", "listen": PORT, "ready": {"within_s": 60}, **options}
    experiment = read_scenario(folder, stacks={"one": {"entry": "app", "services": {"app": app}}})
    plan = make_plan(experiment, hosts)
    return plan.cells[0].services[0]


def start(hosts: Hosts, folder: Path, fault: str, address: str = "{host}", **options: object) -> RunningService:
    """Start a server with a fault that listens on an address. Raises ServiceError."""
    shutil.copy(FAULTY, folder)
    run = f"python3 faulty_server.py {fault} {address} {{port}}"
    service = plan_service(hosts, folder, run=run, files=["faulty_server.py"], **options)
    host = hosts[service.host]
    deploy.deploy(host, [service])
    logs = PurePosixPath("trials") / f"command-{os.getpid()}-{fault}"
    host.call(FileStore.mkdir_temporary, logs)
    return deploy.start(host, service, logs)


def processes(hosts: Hosts) -> dict[str, int | None]:
    """Return the processes of benchkit that run on the server's host, as texts, with their pids."""
    found = hosts["sut"].call(Undo.traces).records
    return {record.text: record.pid for record in found if record.kind == "process"}


@pytest.fixture(autouse=True)
def nothing_left(hosts: Hosts) -> Iterator[None]:
    """Check that the test leaves no process and no port in use; kill what it leaves, for the tests after it."""
    before = processes(hosts)
    yield
    deadline = time.monotonic() + 20
    while (left := processes(hosts)).keys() - before.keys() and time.monotonic() < deadline:
        time.sleep(0.1)  # one that was just killed is waited for elsewhere
    left = {what: pid for what, pid in left.items() if what not in before}
    if left:
        hosts["sut"].processes.run(["kill", "-KILL", *map(str, left.values())])
    assert left == {}
    hosts["sut"].sockets.require_free(range(PORT, PORT + 2 * len(MESSAGES)))


MESSAGES = {
    "dies": ("app (command) did not start", "exit code 3", "starting\n    database.example: no such host"),
    "never-listens": ("cannot connect to {address}:{port}", "Connection refused for 10 s", "starting"),
    "other-port": (
        "it listens on {address}:{next_port} instead",
        "→ let it listen on {address}:{port}: {{host}} and {{port}} in",
    ),
    "loopback": (
        "it listens on 127.0.0.1:{port} instead; Connection refused for ",
        "→ let it listen on {address}:",
    ),
    "only-ipv6": ("it listens on [::]:{port} instead; Connection refused for ", "→ let it listen on {address}:"),
    "goes-to-background": ("its first process ended and left others in the background", "→ let it run in the f"),
}
"""Parts of the message about each server that does not start."""


def test_servers_that_do_not_start_are_explained(hosts: Hosts, tmp_path: Path) -> None:
    """Start all of them at once, as most are waited for until their time is over."""
    ports = {fault: PORT + 2 * number for number, fault in enumerate(MESSAGES)}

    def message_about(fault: str) -> str:
        folder = tmp_path / fault
        folder.mkdir()
        with pytest.raises(ServiceError) as caught:  # Python starts within the time, on a busy machine too
            start(hosts, folder, fault, listen=ports[fault], ready={"within_s": 10})
        return str(caught.value)

    with ThreadPoolExecutor(len(MESSAGES)) as pool:
        messages = dict(zip(MESSAGES, pool.map(message_about, MESSAGES), strict=True))
    for fault, parts in MESSAGES.items():
        place = {"address": hosts["sut"].spec.address, "port": ports[fault], "next_port": ports[fault] + 1}
        assert [part for part in parts if part.format(**place) not in messages[fault]] == [], messages[fault]


@pytest.mark.parametrize("fault", ["none", "slow"])
def test_a_program_that_takes_the_port_while_a_server_starts_is_named(hosts: Hosts, tmp_path: Path, fault: str) -> None:
    sut = hosts["sut"]
    taker = sut.processes.start(ProcessSpec(["python3", "-m", "http.server", str(PORT)]))
    sut.sockets.wait_open(SocketAddress("tcp", sut.spec.address, PORT), 60, taker)
    try:
        with pytest.raises(PortTakenError) as caught:
            start(hosts, tmp_path, fault)
    finally:
        sut.processes.stop([taker])
    assert f"sut: a port is taken: port {PORT} by python3 (pid " in str(caught.value)


def test_a_server_that_ignores_its_signal_is_killed_and_another_signal_ends_it(hosts: Hosts, tmp_path: Path) -> None:
    running = start(hosts, tmp_path, "ignores-term", stop={"within_s": 0.2})
    (sentence,) = deploy.stop(hosts["sut"], [running])
    assert "app did not end within 0.2 s of SIGTERM, and was killed: python3 (" in sentence
    running = start(hosts, tmp_path, "ignores-term", stop={"signal": "INT"})
    assert deploy.stop(hosts["sut"], [running]) == ()


def test_a_missing_program_is_an_error_with_what_to_do(hosts: Hosts, tmp_path: Path) -> None:
    for run, hint in (("no-such-server -p {port}", "install it on sut's PATH"), ("/opt/no/server", "put it there")):
        app = {"backend": "command", "listen": PORT, "run": run}
        experiment = read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": {"app": app}}})
        _, (error, *_) = draft_plan(experiment, hosts)
        assert isinstance(error, HostError)
        assert str(error).startswith(f"sut: {run.split()[0]} is missing\n  → {hint}")


def test_a_build_that_fails_is_an_error_of_the_plan(hosts: Hosts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"small.yaml:4: .*app.build: .*exit code 1:\n    undefined: main"):
        plan_service(hosts, tmp_path, run="./app", build={"run": "sh -c 'echo undefined: main; exit 1'"})
