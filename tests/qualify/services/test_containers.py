"""Containers on a lab host, and their usual faults: each has a clear message, and nothing of it stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import HostError, HostStateError, InputError, ServiceError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabSpec
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan
from benchkit.plan.records import cell_record
from benchkit.services import container_engine, deploy
from benchkit.services.deploy import RunningService
from benchkit.services.service import Service
from tests.support.builders import read_scenario
from tests.support.containers.fixtures import build_image, engine_state, make_context

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("podman", "runc", "iptables", "go"))),
    reason="needs root, and podman with runc and iptables (`make system`)",
)

PORT = 8792


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_context(tmp_path_factory.mktemp("image"))


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Hosts]:
    """Connect to the hosts; once they are restored, nothing is there that was not there before."""
    before = engine_state(lab, "sut")
    with connect_all(lab.inventory()) as connected:
        yield connected
    assert engine_state(lab, "sut") == before


def plan(hosts: Hosts, folder: Path, **options: object) -> RunPlan:
    app = {"backend": "container", "listen": PORT, "port": 80, "ready": {"within_s": 15}, **options}
    return make_plan(read_scenario(folder, stacks={"one": {"entry": "app", "services": {"app": app}}}), hosts)


def start(hosts: Hosts, service: Service) -> RunningService:
    host = hosts[service.host]
    deploy.deploy(host, [service])
    logs = PurePosixPath("trials") / f"container-{os.getpid()}"
    host.files.mkdir_temporary(logs)
    return deploy.start(host, service, logs)


def plan_service(hosts: Hosts, folder: Path, **options: object) -> Service:
    (cell,) = plan(hosts, folder, **options).cells
    assert cell.unsupported is None
    return cell.services[0]


def fetch(host: Host, service: Service, path: str = "/") -> tuple[int, bytes]:
    answer = host.sockets.http(deploy.socket_of(service.endpoint), path, headers=[("Host", "h")])
    return answer.status, answer.body


@pytest.mark.parametrize("network", ["host", "published"])
def test_a_container_answers_and_is_counted_as_its_control_group(
    hosts: Hosts, tmp_path: Path, context: Path, network: str
) -> None:
    options = {"network": "host", "port": PORT, "command": "serve {host}:{port}"} if network == "host" else {}
    running = start(
        hosts,
        plan_service(
            hosts,
            tmp_path,
            build={"context": str(context)},
            quota=0.5,
            memory="64m",
            environment={"WHO": "me"},
            **options,
        ),
    )
    host = hosts["sut"]
    assert fetch(host, running.service) == (200, b"Hello World me\n")
    used = host.processes.cpu_times([running.process])[running.process.id]
    assert used.processes == 2  # the client of the engine, whose CPU time is not counted, and the server
    for _ in range(200):
        fetch(host, running.service)
    grown = host.processes.cpu_times([running.process])[running.process.id]
    assert grown.user_s + grown.system_s > used.user_s + used.system_s
    assert deploy.stop(host, [running]) == ()
    assert host.files.read(running.log).startswith(b"listening on")
    host.sockets.require_free([PORT])


def test_a_bridge_is_for_load_from_its_own_host(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    with pytest.raises(
        InputError, match=r"network bridge: only sut reaches 10\.\d+\.\d+\.2:80, and load sends the load"
    ):
        plan(hosts, tmp_path, build={"context": str(context)}, network="bridge")


def test_an_image_is_sent_once_and_known_by_its_id(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    name = build_image(context, "localhost/benchkit-test:once", "--timestamp", "7")
    planned = plan(hosts, tmp_path, image=name)
    (service,) = planned.cells[0].services
    assert deploy.deploy(hosts["sut"], [service]).sent_bytes > 1 << 20
    assert deploy.deploy(hosts["sut"], [service]).sent_bytes == 0
    inspected = subprocess.run(["podman", "inspect", "-f", "{{.Id}}", name], capture_output=True, text=True, check=True)
    assert cell_record(planned.cells[0]).builds["app"].output_sha256 == inspected.stdout.strip()
    engine = hosts["sut"].facts.engines["podman"]
    assert (engine.storage_driver, engine.cgroup_manager, engine.rootless) == ("overlay", "cgroupfs", False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ["die"]}, r"ended before it listened on .*: exit code 3; no configuration"),
        ({"command": ["silent"], "ready": {"within_s": 2}, "network": "host", "port": PORT}, r"cannot connect to "),
        (
            {"command": ["memory"], "memory": "32m"},
            r"the kernel killed it for memory: its limit is 32\.0 MiB",
        ),
        ({"command": ["write"], "read_only": True}, r"open /data/state: (read-only file system|no such file)"),
        ({"command": ["serve"], "mounts": ["/nowhere/at/all:/x"]}, r"/nowhere/at/all"),
    ],
    ids=["dies", "never listens", "memory", "read-only", "mount"],
)
def test_a_fault_of_a_container_is_named_and_leaves_nothing(
    hosts: Hosts, tmp_path: Path, context: Path, options: dict[str, object], message: str
) -> None:
    service = plan_service(hosts, tmp_path, build={"context": str(context)}, **options)
    with pytest.raises(ServiceError, match=message):
        start(hosts, service)


def test_an_image_of_another_architecture_is_unsupported(hosts: Hosts, tmp_path: Path) -> None:
    context = make_context(tmp_path, goarch="arm64")
    name = build_image(context, "localhost/benchkit-test:arm64", "--platform", "linux/arm64")
    with pytest.raises(InputError, match="is for arm64, and sut is amd64"):
        plan(hosts, tmp_path, image=name)


def test_an_image_that_nobody_has_is_named(hosts: Hosts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"app\.image: no engine of this machine has an image nobody/has:this"):
        plan(hosts, tmp_path, image="nobody/has:this")


def test_an_engine_that_stops_is_named(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    running = start(hosts, plan_service(hosts, tmp_path, build={"context": str(context)}))
    host = hosts["sut"]
    host.processes.run(["kill", "-KILL", str(running.process.pid)])
    ended = running.process.wait(5)
    assert ended is not None
    assert "the engine stopped running it" in str(deploy.explain_end(host, running))
    deploy.stop(host, [running])


def test_a_full_image_store_is_a_state_of_the_host(lab: Lab, tmp_path: Path, context: Path) -> None:
    mount = "mount -t tmpfs -o size=3m tmpfs /var/lib/containers"
    subprocess.run([*lab.ssh_command("sut"), mount], check=True)
    try:
        with connect_all(lab.inventory()) as hosts:
            service = plan_service(hosts, tmp_path, build={"context": str(context)})
            with pytest.raises(HostStateError, match="image store is full"):
                deploy.deploy(hosts["sut"], [service])
    finally:
        subprocess.run([*lab.ssh_command("sut"), "umount -l /var/lib/containers"], check=True)


def test_data_is_fresh_or_kept_and_prepared_once(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    host, options = hosts["sut"], {"mounts": ["data:/data"], "prepare": ["/server", "prepare"]}
    for data, is_same in (("fresh", False), ("kept", True)):
        service = plan_service(hosts, tmp_path, build={"context": str(context)}, data=data, **options)
        states = []
        for _ in range(2):
            running = start(hosts, service)
            states.append(fetch(host, service, "/state"))
            deploy.stop(host, [running])
        assert states[0][0] == 200
        assert (states[0] == states[1]) is is_same


def test_two_containers_reach_each_other_by_name(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    image = build_image(context, "localhost/benchkit-test:peers")
    services = {
        "back": {"backend": "container", "image": image, "listen": 81, "network": "bridge", "command": "serve :81"},
        "app": {"backend": "container", "image": image, "listen": PORT, "port": 80, "peers": {"db": "back"}},
    }
    planned = make_plan(read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": services}}), hosts)
    host = hosts["sut"]
    running = [start(hosts, service) for service in planned.cells[0].services]
    assert fetch(host, running[1].service, "/peer?db:81/")[0] == 200
    deploy.stop(host, running)


COMPOSE = """
services:
  web:
    build: {context: CONTEXT}
    depends_on: [db]
    command: serve :80
  db:
    build: CONTEXT
    command: [serve, ":5432"]
    environment: {WHO: database}
    expose: ["5432"]
    volumes: ["state:/data"]
    healthcheck: {test: [CMD, /server, prepare]}
volumes: {state: }
"""


def test_each_service_of_a_compose_file_is_measured_on_its_own(hosts: Hosts, tmp_path: Path, context: Path) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE.replace("CONTEXT", str(context)))
    app = {"backend": "compose", "file": "compose.yaml", "entry": "web:80", "listen": PORT}
    planned = make_plan(read_scenario(tmp_path, stacks={"one": {"entry": "app", "services": {"app": app}}}), hosts)
    services, host = planned.cells[0].services, hosts["sut"]
    assert [service.name for service in services] == ["app-db", "app"]
    running = [start(hosts, service) for service in services]
    assert fetch(host, services[1], "/peer?db:5432/state") == (200, b"")
    used = host.processes.cpu_times([each.process for each in running])
    assert all(0 < each.total_s < 5 for each in used.values())
    deploy.stop(host, running)
    host.sockets.require_free([PORT])


def test_labs_share_no_networks_and_leave_none(lab: Lab) -> None:
    def networks(*command: str) -> list[str]:
        argv = [*command, "podman", "network", "ls", "-q"]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()

    before = networks()
    other = up(LabSpec(name=f"pytest-bridges-{os.getpid()}"), temporary=True)
    try:
        first, second = lab.ssh_command("sut"), other.ssh_command("sut")
        for host in (first, second):
            subprocess.run(
                [*host, "podman network create --subnet 10.200.7.0/24 same"], check=True, capture_output=True
            )
        subprocess.run([*first, "podman network rm same"], check=True, capture_output=True)
        assert "same" in networks(*second)
        assert networks(*first) == networks() == before
    finally:
        down(other.name)
    assert networks() == before


def test_what_a_lost_connection_leaves_is_removed_by_the_watchdog(lab: Lab, tmp_path: Path, context: Path) -> None:
    before = engine_state(lab, "sut")
    hosts = connect_all(lab.inventory())
    running = start(hosts, plan_service(hosts, tmp_path, build={"context": str(context)}))
    assert container_engine.leftovers(hosts["sut"], "podman") != ()
    agent = hosts["sut"].processes.run(("sh", "-c", "echo $PPID")).stdout.decode().strip()
    with pytest.raises(HostError):
        hosts["sut"].processes.run(("kill", "-9", agent))
    hosts["load"].close()
    with connect_all(lab.inventory()) as others:
        others.lock("after-a-crash")  # waits for the watchdog
        assert container_engine.leftovers(others["sut"], "podman") == ()
        with pytest.raises(HostError):
            others["sut"].sockets.wait_open(deploy.socket_of(running.service.endpoint), 0)
    assert engine_state(lab, "sut") == before
