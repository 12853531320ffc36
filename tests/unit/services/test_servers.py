"""The Go and Node servers as services: rendered options, and errors before deployment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.files import BACKENDS as SOURCES
from benchkit.scenario.read import read_experiment
from benchkit.services.go_build import GoSource
from benchkit.services.placement import Endpoint, HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import AdminPage, Service
from tests.support.services import placements

GO = ("nethttp", "fcgi", "gostring", "fileserver", "fasthttp", "gnet", "netpoll", "hertz", "pghttp")

PLACE = replace(
    placements.PLACE,
    cpus=(2, 3, 5),
    folder=PurePosixPath("/w/app"),
    goarch="arm64",
    programs={"node": placements.NODE, "taskset": HostProgram("/usr/bin/taskset", (2, 38))},
)
"""Place with three CPUs on a 64-bit ARM host."""


def write_scenario(tmp_path: Path, service: str) -> Path:
    path = tmp_path / "one.yaml"
    path.write_text(
        f"name: one\ntitle: t\nquestion: q\nstacks:\n  it:\n    entry: app\n    services:\n      app: {{{service}}}\n"
        "load: {tool: wrk, connections: 4, duration_s: 1}\nblocks: 2\n"
    )
    return path


def read_services(tmp_path: Path, service: str) -> tuple[ServiceSpec, ...]:
    return read_experiment(str(write_scenario(tmp_path, service))).cells[0].services


def render(tmp_path: Path, service: str, place: ServicePlacement = PLACE) -> Service:
    (rendered,) = render_services(read_services(tmp_path, service), lambda _: place)
    return rendered


@pytest.mark.parametrize("backend", [name for name in GO if name not in ("fcgi", "pghttp")])
def test_go_servers_differ_only_in_their_program(tmp_path: Path, backend: str) -> None:
    service = render(tmp_path, f"backend: {backend}, listen: 8080, body_size: 5, work: 'loop:7', gomaxprocs: 2")
    content = service.files[0].content
    assert content == GoSource(SOURCES / backend, "linux", "arm64")
    assert service.process.argv[:9] == (
        *(f"/w/app/{backend}", "-listen", "10.0.0.1:8080", "-admin", "unix:/w/app/_admin.sock"),
        *("-work", "loop:7", "-body-size", "5"),
    )
    assert service.process.env == {"GOMAXPROCS": "2"}
    assert (service.process.cpus, service.parallelism) == ((2, 3, 5), 2)
    admin = Endpoint("sut", "http1", path=PurePosixPath("/w/app/_admin.sock"))
    assert service.admin == AdminPage("expvar", admin, "/debug/vars")


def test_the_host_s_node_runs_the_placed_sources(tmp_path: Path) -> None:
    service = render(tmp_path, "backend: node, listen: unix, inject_fault: ['fail:0.5', 'delay:5ms']")
    assert service.process.argv == (
        *("/usr/bin/node", "/w/app/node/main.js", "-listen", "unix:/w/app/app.sock"),
        *("-admin", "unix:/w/app/_admin.sock", "-work", "none"),
        *("-inject-fault", "fail:0.5", "-inject-fault", "delay:5ms"),
        *("-workers", "3", "-pin", "none", "-worker-type", "process"),
    )
    placed = {file.path.name: file.content for file in service.files}
    assert {"main.js", "package.json"} <= placed.keys()
    assert not [name for name in placed if "test" in name]
    assert placed["main.js"] == (SOURCES / "node" / "main.js").read_bytes()
    assert service.parallelism == 3
    assert service.admin is not None
    assert service.admin.kind == "node"


def test_unsupported_hosts_are_rejected_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"all-but-one: sut has 1 CPU"):
        render(tmp_path, "backend: node, listen: 8080, workers: all-but-one", replace(PLACE, cpus=(0,)))
    old = {"node": HostProgram("/usr/bin/node", (12, 22, 9))}
    with pytest.raises(UnsupportedError, match=r"Node 12\.22\.9; the server needs 18"):
        render(tmp_path, "backend: node, listen: 8080", replace(PLACE, programs=old))


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ("backend: fcgi, listen: 9001", "one.yaml:8: stacks.it.services.app.backend: the load goes to this service, and no load tool speaks fastcgi"),
        ("backend: gnet, listen: 1, work: 'loop:-1'", "one.yaml:8: stacks.it.services.app.work: found 'loop:-1'"),
        ("backend: node, listen: 1, work: heavy", "one.yaml:8: stacks.it.services.app.work: found 'heavy'"),
        ("backend: node, listen: 1, workers: 0", "services.app.workers: found 0"),
        ("backend: node, listen: 1, pin: some", "services.app.pin: found 'some'; allowed: 'none', 'workers' or 'all'"),
        ("backend: node, listen: 1, gomaxprocs: 1", "services.app.gomaxprocs: no such field"),
        ("backend: fileserver, listen: 1, listing: 0", "services.app.listing: found 0"),
    ],
)  # fmt: skip
def test_faults_name_file_line_and_field(tmp_path: Path, service: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_services(tmp_path, service)
    assert message in str(error.value)
