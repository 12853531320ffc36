"""nginx started by root: its workers are another user's, and still reach pages, sockets and temporary files."""

from __future__ import annotations

from pathlib import Path

from benchkit.agent.operations import SocketAddress
from benchkit.hosts.connections import connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from benchkit.run.deployment import holder_name, select_cell, take_down, up
from benchkit.scenario.read import read_experiment
from tests.support.builders import write_scenario
from tests.support.needs import separate_hosts

pytestmark = separate_hosts

LARGE, BODY = "temporary-file", 8_000_000
"""Bytes that nginx has to put into a temporary file while the client does not read."""
PAGE = {"backend": "nginx", "file_bytes": 1600}
APPS: dict[str, dict[str, object]] = {
    LARGE: {"backend": "nethttp", "listen": 8090, "body_size": BODY},
    "go": {"backend": "nethttp", "listen": "unix", "body_size": 1600},
    "fastcgi": {"backend": "fcgi", "listen": "unix", "body_size": 1600},
    "node": {"backend": "node", "listen": "unix", "body_size": 1600},
    "nginx": {**PAGE, "listen": "unix"},
}
"""Services that nginx passes requests on to, all but the first at a socket of the file system."""
PORTS = {"page": 8080} | {name: 8081 + i for i, name in enumerate(APPS)}
"""Ports of the nginx that sends a page of its own, and of the one before each of those services."""
LATE_READER = """
import socket, sys, time
address, *ports = sys.argv[1:]
clients = [socket.create_connection((address, int(port))) for port in ports]
for client in clients:
    client.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
time.sleep(0.5)
for client in clients:
    print(sum(iter(lambda: len(client.recv(1 << 16)), 0)))
"""


def processes_of_nginx(host: Host) -> set[tuple[str, bool]]:
    """Return the roles of nginx's processes, and whether root has them."""
    lines = host.processes.run(["ps", "-C", "nginx", "-o", "uid=,gid=,args="]).stdout.decode().splitlines()
    rows = [line.split(maxsplit=2) for line in lines]
    return {(args.split()[1], "0" in (uid, gid)) for uid, gid, args in rows}


def late_reader_bytes(host: Host, address: str) -> dict[str, int]:
    """Return the bytes that clients of each front get if they do not read for half a second."""
    done = host.processes.run(["python3", "-c", LATE_READER, address, *map(str, PORTS.values())])
    assert done.ok, done.stderr
    return dict(zip(PORTS, map(int, done.stdout.split()), strict=True))


def test_workers_reach_what_they_serve_without_root(lab: Lab, tmp_path: Path) -> None:
    """Check each front of one stack, which is up as a whole: a deployment takes seconds."""
    fronts = {
        f"front-{name}": {"backend": "nginx", "listen": port, **(PAGE if name == "page" else {"upstream": name})}
        for name, port in PORTS.items()
    }
    stacks = {"one": {"entry": "front-page", "services": {**APPS, **fronts}}}
    experiment = read_experiment(str(write_scenario(tmp_path, name="workers", stacks=stacks)))
    with connect_all(lab.inventory()) as hosts:
        plan = make_plan(experiment, hosts)
        up(plan, select_cell(plan), hosts, lambda _: None)
        address = hosts["sut"].spec.address
    with connect_all(lab.inventory()) as hosts:
        sockets = hosts["load"].sockets
        try:
            assert processes_of_nginx(hosts["sut"]) == {("master", True), ("worker", False)}
            answers = {
                name: sockets.get_http(SocketAddress("tcp", address, at)) for name, at in PORTS.items() if name != LARGE
            }
            late = late_reader_bytes(hosts["load"], address)
        finally:
            take_down(holder_name("workers"), hosts)
    sizes = {name: BODY if name == LARGE else 1600 for name in PORTS}
    assert {(each.status, len(each.body)) for each in answers.values()} == {(200, 1600)}
    assert [name for name, size in sizes.items() if late[name] <= size] == []
