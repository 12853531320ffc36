"""All servers on loopback, alone and behind nginx: same status line, same header, same body."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from benchkit.models.base import Frozen
from benchkit.scenario.read import read_experiment
from benchkit.services.go_build import GoSource
from benchkit.services.placement import HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import Service, ServiceFile

STARTUP_S = 60.0
HEADER_BYTES = 141
"""Published for the four topologies of study 1, with a body of 12 bytes."""

SCENARIO = """\
name: alike
title: t
question: q
factors: {stack: [nethttp, gostring, fasthttp, gnet, netpoll, hertz, node, nginx-http, nginx-fcgi, nginx-fcgi-unix]}
stacks:
  nethttp: {entry: app, services: {app: {backend: nethttp, listen: unix}}}
  gostring: {entry: app, services: {app: {backend: gostring, listen: unix, body_size: 12}}}
  fasthttp: {entry: app, services: {app: {backend: fasthttp, listen: unix}}}
  gnet: {entry: app, services: {app: {backend: gnet, listen: unix}}}
  netpoll: {entry: app, services: {app: {backend: netpoll, listen: unix}}}
  hertz: {entry: app, services: {app: {backend: hertz, listen: unix}}}
  node: {entry: app, services: {app: {backend: node, listen: unix, workers: 1}}}
  nginx-http: {entry: front, services: {app: {backend: nethttp, listen: unix}, front: {backend: nginx, listen: unix, upstream: app}}}
  nginx-fcgi: {entry: front, services: {app: {backend: fcgi, listen: "127.0.0.1:PORT"}, front: {backend: nginx, listen: unix, upstream: app}}}
  nginx-fcgi-unix: {entry: front, services: {app: {backend: fcgi, listen: unix}, front: {backend: nginx, listen: unix, upstream: app}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 1
"""


@dataclass(frozen=True)
class Response:
    """Status line, header and body of a response, for comparison."""

    status: str
    names: frozenset[str]
    header_bytes: int
    body: str
    """SHA-256 of the body."""
    server: str


class LocalPrograms(Frozen):
    """Node and nginx of this machine."""

    node: str
    nginx: str
    version: tuple[int, ...]
    version_output: str


@pytest.fixture(scope="module")
def local_programs() -> LocalPrograms:
    node, nginx = (shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("node", "nginx"))
    if node is None or nginx is None:
        pytest.skip("there is no node or no nginx")
    version_output = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr.strip()
    numbers = re.search(r"/([0-9.]+)", version_output)
    assert numbers is not None
    return LocalPrograms(
        node=node, nginx=nginx, version=tuple(map(int, numbers[1].split("."))), version_output=version_output
    )


def place(local_programs: LocalPrograms, folder: Path) -> ServicePlacement:
    programs = {
        "node": HostProgram(local_programs.node, (20,)),
        "nginx": HostProgram(local_programs.nginx, local_programs.version, local_programs.version_output),
    }
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    root = os.geteuid() == 0
    return ServicePlacement(
        "here",
        "127.0.0.1",
        cpus,
        PurePosixPath(folder),
        "root" if root else "me",
        root,
        "linux",
        "amd64",
        1024,
        programs,
    )


@contextmanager
def running(service: Service) -> Iterator[None]:
    """Run the service until the end of the block."""
    for file in service.files:
        write_file(file)
    started = subprocess.Popen(
        service.process.argv,
        env={**os.environ, **service.process.env},
        cwd=service.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_open(service, started)
        yield
    finally:
        started.terminate()
        started.wait(60)


def write_file(file: ServiceFile) -> None:
    path = Path(file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(file.content, GoSource):
        path.symlink_to(file.content.read())
    else:
        assert isinstance(file.content, bytes)
        path.write_bytes(file.content)


def connect(service: Service) -> socket.socket:
    endpoint = service.endpoint
    if endpoint.path is not None:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(STARTUP_S)
        try:
            client.connect(str(endpoint.path))
        except OSError:
            client.close()
            raise
        return client
    return socket.create_connection((endpoint.address, endpoint.port), STARTUP_S)


def wait_open(service: Service, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTUP_S
    while started.poll() is None:
        try:
            connect(service).close()
        except (FileNotFoundError, ConnectionRefusedError):
            assert time.monotonic() < deadline, f"{service.name} does not listen"
            time.sleep(0.01)
        else:
            return
    raise AssertionError(f"{service.process.argv} ended with {started.returncode}")


def get(service: Service) -> Response:
    with connect(service) as client, client.makefile("rwb") as stream:
        stream.write(b"GET / HTTP/1.1\r\nHost: sut\r\n\r\n")
        stream.flush()
        lines = [stream.readline()]
        while lines[-1] not in (b"\r\n", b""):
            lines.append(stream.readline())
        fields = dict(line.decode().rstrip("\r\n").split(": ", 1) for line in lines[1:-1])
        body = stream.read(int(fields["Content-Length"]))
    return Response(
        status=lines[0].decode(),
        names=frozenset(fields),
        header_bytes=sum(map(len, lines)),
        body=hashlib.sha256(body).hexdigest(),
        server=fields["Server"],
    )


def test_all_servers_send_the_same_bytes(
    local_programs: LocalPrograms, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with socket.socket() as kept:
        # A bound socket that does not listen keeps others from the port, but not a server that reuses addresses.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        (tmp_path / "alike.yaml").write_text(SCENARIO.replace("PORT", str(kept.getsockname()[1])))
        responses = responses_of(tmp_path / "alike.yaml", local_programs, tmp_path_factory.mktemp("s"))
    assert len(responses) == 10
    assert {response.header_bytes for response in responses.values()} == {HEADER_BYTES}, responses
    assert len({(response.status, response.names, response.body) for response in responses.values()}) == 1, responses
    assert {len(response.server) for response in responses.values()} == {len("nginx")}, responses


def responses_of(scenario: Path, local_programs: LocalPrograms, folders: Path) -> dict[str, Response]:
    """Return the response of each cell; the path of `folders` is short, for the paths of sockets."""
    experiment = read_experiment(str(scenario))
    responses: dict[str, Response] = {}
    for number, cell in enumerate(experiment.cells):

        def make_place(service: ServiceSpec, number: int = number) -> ServicePlacement:
            folder = folders / str(number) / service.name
            folder.mkdir(parents=True)
            return place(local_programs, folder)

        services = render_services(cell.services, make_place)
        with running(services[0]):
            if len(services) > 1:
                with running(services[1]):
                    responses[cell.cell_id] = get(services[1])
            else:
                responses[cell.cell_id] = get(services[0])
    return responses
