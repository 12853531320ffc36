"""nginx started by root: its workers are another user's, and still reach pages, sockets and temporary files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.hosts.host import Host
from benchkit.hosts.sockets import Tcp
from benchkit.lab.lab import Lab
from benchkit.run.deployment import down, select_cell, up
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.read import read_experiment
from tests.builders import write_scenario
from tests.needs import separate_hosts

pytestmark = [pytest.mark.lab, separate_hosts]

BODY = 8_000_000
"""Bytes that nginx has to put into a temporary file while the client does not read."""
PAGE = {"backend": "nginx", "file_bytes": 1600}
FRONT = {"backend": "nginx", "listen": 8080, "upstream": "app"}
SERVICES = {
    "page": {"front": {**PAGE, "listen": 8080}},
    "temporary file": {"app": {"backend": "nethttp", "listen": 8081, "body_size": BODY}, "front": FRONT},
    "socket of a Go server": {"app": {"backend": "nethttp", "listen": "unix", "body_size": 1600}, "front": FRONT},
    "socket of FastCGI": {"app": {"backend": "fcgi", "listen": "unix", "body_size": 1600}, "front": FRONT},
    "socket of Node": {"app": {"backend": "node", "listen": "unix", "body_size": 1600}, "front": FRONT},
    "socket of nginx": {"app": {**PAGE, "listen": "unix"}, "front": FRONT},
}
LATE_READER = """
import socket, sys, time
client = socket.create_connection((sys.argv[1], 8080))
client.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
time.sleep(0.5)
print(sum(iter(lambda: len(client.recv(1 << 16)), 0)))
"""


def processes_of_nginx(host: Host) -> set[tuple[str, bool]]:
    """Return the roles of nginx's processes, and whether root has them."""
    lines = host.processes.run(["ps", "-C", "nginx", "-o", "uid=,gid=,args="]).stdout.decode().splitlines()
    rows = [line.split(maxsplit=2) for line in lines]
    return {(args.split()[1], "0" in (uid, gid)) for uid, gid, args in rows}


@pytest.mark.parametrize("what", SERVICES)
def test_workers_reach_what_they_serve_without_root(lab: Lab, tmp_path: Path, what: str) -> None:
    stacks = {"one": {"entry": "front", "services": SERVICES[what]}}
    experiment = read_experiment(str(write_scenario(tmp_path, name="workers", stacks=stacks)))
    with connect_all(lab.inventory()) as hosts:
        sut, plan = hosts["sut"], make_plan(experiment, hosts)
        cell = select_cell(plan)
        up(plan, cell, hosts, lambda _: None)
    address = str(cell.services[-1].endpoint.address)
    with connect_all(lab.inventory()) as hosts:
        sut = hosts["sut"]
        try:
            answer = hosts["load"].sockets.http(Tcp(address, 8080), headers=[("Host", "x")])
            late = hosts["load"].processes.run(["python3", "-c", LATE_READER, address])
            assert processes_of_nginx(sut) == {("master", True), ("worker", False)}
        finally:
            down("workers", hosts)
    size = BODY if what == "temporary file" else 1600
    assert (answer.status, answer.complete, answer.body_bytes) == (200, True, size)
    assert int(late.stdout) > size
