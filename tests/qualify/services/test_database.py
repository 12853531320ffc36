"""PostgreSQL on a lab host: rows and answers of the server that asks it, fresh data, and nothing left."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from benchkit.services import deploy
from benchkit.services.deploy import RunningService
from tests.support.builders import read_scenario
from tests.support.needs import database

pytestmark = database

SERVICES = {
    "database": {"backend": "postgres", "listen": "127.0.0.1:5438"},
    "app": {"backend": "pghttp", "listen": 8438, "database": "database", "rows": 100, "pool": 2},
}


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Hosts]:
    with connect_all(lab.inventory()) as connected:
        yield connected


@pytest.fixture
def running(hosts: Hosts, tmp_path: Path) -> Iterator[list[RunningService]]:
    host, stack = hosts["sut"], {"entry": "app", "services": SERVICES}
    (cell,) = make_plan(read_scenario(tmp_path, stacks={"one": stack}), hosts).cells
    assert cell.unsupported is None
    deploy.deploy(host, cell.services)
    logs = PurePosixPath("trials") / f"database-{os.getpid()}"
    host.call(FileStore.mkdir_temporary, logs)
    started: list[RunningService] = []
    try:
        started.extend(deploy.start(host, service, logs) for service in cell.services)
        yield started
    finally:
        deploy.stop(host, started)
    host.sockets.require_free([5438, 8438])
    left = host.processes.run(["sh", "-c", "grep -c /data /proc/mounts; ls -A /mnt"]).stdout.decode().split()
    assert left[0] == "0"  # the mount was in the namespace of the database


def fetch(host: Host, running: list[RunningService], path: str) -> tuple[int, bytes]:
    answer = host.sockets.get_http(deploy.socket_of(running[-1].service.endpoint), path)
    return answer.status, answer.body


def query(host: Host, text: str) -> str:
    psql = ["psql", "-h", "127.0.0.1", "-p", "5438", "-U", "postgres", "-tAc", text]
    done = host.processes.run(psql)
    assert done.ok, done.stderr
    return done.stdout.decode().strip()


def test_rows_and_answers_are_those_of_the_table(hosts: Hosts, running: list[RunningService]) -> None:
    host = hosts["sut"]
    assert query(host, "SELECT count(*), sum(number), sum(updates) FROM world") == f"100|{17 * 5050}|0"
    status, body = fetch(host, running, "/one")
    row = json.loads(body)
    assert (status, row["number"]) == (200, 17 * row["id"])
    rows = json.loads(fetch(host, running, "/twenty")[1])
    assert len({each["id"] for each in rows}) == 20
    assert all(each["number"] == 17 * each["id"] for each in rows)
    for _ in range(100):
        status, body = fetch(host, running, "/update")
        assert (status, json.loads(body)["updates"]) == (200, 1)
    assert query(host, "SELECT min(updates), max(updates) FROM world") == "1|1"
    used = host.call(ProcessTable.cpu_times, [each.id for each in [each.process for each in running]])
    assert all(used[each.process.id].total_s > 0 for each in running)
