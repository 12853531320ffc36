"""Containers of both engines on a lab host, and their usual faults: each has a clear message, and nothing stays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError, ServiceError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.host import Host
from benchkit.judge.run_differences import setting_differences
from benchkit.lab.lab import Lab
from benchkit.plan.model import RunPlan, cell_record
from benchkit.plan.planner import make_plan
from benchkit.run.run import execute
from benchkit.services import deploy
from benchkit.services.deploy import RunningService
from benchkit.services.service import Service
from benchkit.store.store import Store
from tests.support.builders import experiment, read_scenario
from tests.support.containers.fixtures import build_image, docker_lab, engine_state, make_context, wait_for_engine_state
from tests.support.containers.registry import publish, registry
from tests.support.needs import containers, docker
from tests.support.run.opening import open_run

pytestmark = containers
only_docker = pytest.mark.parametrize("engine", [pytest.param("docker", marks=docker)], indirect=True)

PORT = 8792
OPTIONS = ("--insecure-registry=0.0.0.0/0",)
"""Options of docker's daemon: registries without TLS."""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_context(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module", params=["podman", pytest.param("docker", marks=docker)])
def engine(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Engine]:
    """An engine on a lab: podman on the session's, docker with a daemon on one of its own."""
    if request.param == "podman":
        yield Engine("podman", lab)
    else:
        with docker_lab(*OPTIONS) as made:
            yield Engine("docker", made)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Iterator[Bench]:
    """Connect to the hosts; once they are restored, nothing is there that was not there before."""
    before = engine.state()
    with connect_all(engine.lab.inventory()) as hosts:
        yield Bench(engine, hosts, tmp_path)
    engine.wait_for(before)


@dataclass(frozen=True)
class Engine:
    """An engine on the host `sut` of a lab."""

    name: str
    lab: Lab

    def state(self) -> list[str]:
        """Return all that it may leave there."""
        return engine_state(self.lab, "sut", self.name)

    def wait_for(self, state: list[str]) -> None:
        """Wait until nothing else is there."""
        wait_for_engine_state(state, self.lab, "sut", self.name)

    def run(self, script: str) -> None:
        """Run a command on its host."""
        subprocess.run([*self.lab.ssh_command("sut"), script], check=True)


@dataclass(frozen=True)
class Bench:
    """Hosts of a lab with an engine, and a folder for scenarios."""

    engine: Engine
    hosts: Hosts
    folder: Path

    @property
    def host(self) -> Host:
        """The host of the services."""
        return self.hosts["sut"]

    def plan(self, **services: dict[str, object]) -> RunPlan:
        """Return the plan of one stack of these services, whose last one gets the load."""
        stacks = {"one": {"entry": list(services)[-1], "services": services}}
        return make_plan(read_scenario(self.folder, stacks=stacks), self.hosts)

    def plan_app(self, **options: object) -> RunPlan:
        """Return the plan of a container with these options."""
        return self.plan(app={"backend": "container", "listen": PORT, "port": 80, "ready": {"within_s": 60}, **options})

    def service(self, **options: object) -> Service:
        """Return a container with these options as a service."""
        (cell,) = self.plan_app(**options).cells
        assert cell.unsupported is None
        return cell.services[0]

    def start(self, service: Service) -> RunningService:
        """Deploy and start a service."""
        deploy.deploy(self.host, [service])
        logs = PurePosixPath("trials") / f"container-{os.getpid()}"
        self.host.call(FileStore.mkdir_temporary, logs)
        return deploy.start(self.host, service, logs)


def fetch(host: Host, service: Service, path: str = "/") -> tuple[int, bytes]:
    answer = host.sockets.get_http(deploy.socket_of(service.endpoint), path)
    return answer.status, answer.body


@pytest.mark.parametrize("network", ["host", "published"])
def test_a_container_answers_and_is_counted_as_its_control_group(bench: Bench, context: Path, network: str) -> None:
    options = {"network": "host", "port": PORT, "command": "serve {host}:{port}"} if network == "host" else {}
    limits = {"quota": 0.5, "memory": "64m", "stop": {"within_s": 30}}
    service = bench.service(build={"context": str(context)}, environment={"WHO": "me"}, **limits, **options)
    running, host = bench.start(service), bench.host
    assert fetch(host, running.service) == (200, b"Hello World me\n")
    used = host.call(ProcessTable.cpu_times, [running.process.id])[running.process.id]
    assert len(host.processes.members(running.process)) == 2  # the client of the engine, and the server
    for _ in range(200):
        fetch(host, running.service)
    grown = host.call(ProcessTable.cpu_times, [running.process.id])[running.process.id]
    assert grown.total_s > used.total_s
    assert deploy.stop(host, [running]) == ()
    assert host.files.read(running.log).startswith(b"listening on")
    host.sockets.require_free([PORT])


def test_an_image_is_sent_once_and_known_by_its_id(bench: Bench, context: Path) -> None:
    name = build_image(context, "localhost/benchkit-test:once", "--timestamp", "7")
    planned = bench.plan_app(image=name)
    (service,) = planned.cells[0].services
    assert deploy.deploy(bench.host, [service]).sent_bytes > 1 << 20
    assert deploy.deploy(bench.host, [service]).sent_bytes == 0
    inspected = subprocess.run(["podman", "inspect", "-f", "{{.Id}}", name], capture_output=True, text=True, check=True)
    assert cell_record(planned.cells[0]).builds["app"].output_sha256 == inspected.stdout.strip()
    fact = bench.host.facts.engines[bench.engine.name]
    driver = {"podman": "overlay", "docker": "vfs"}[bench.engine.name]
    assert (fact.storage_driver, fact.cgroup_manager, fact.rootless) == (driver, "cgroupfs", False)


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
    bench: Bench, context: Path, options: dict[str, object], message: str
) -> None:
    service = bench.service(build={"context": str(context)}, **options)
    with pytest.raises(ServiceError, match=message):
        bench.start(service)


@only_docker
def test_an_image_that_the_host_pulls_is_on_record_and_removed(engine: Engine, tmp_path: Path, context: Path) -> None:
    """With docker alone: podman needs a setting of its own for a registry without TLS."""
    before, shelf, ids = engine.state(), tmp_path / "registry", []
    with connect_all(engine.lab.inventory()) as hosts:
        address = hosts["sut"].facts.controller_address
    assert address is not None
    with registry(shelf, address) as name:
        app = {"backend": "container", "image": f"{name}/app:latest", "pull": "missing"}
        services = {"app": {**app, "listen": PORT, "port": 80}}
        scenario = experiment(stacks={"one": {"entry": "app", "services": services}}, blocks=1)
        manifests = []
        for version in "12":
            image = build_image(context, "localhost/benchkit-test:pulled", "--label", f"version={version}")
            ids.append(publish(image, shelf, "app"))
            with connect_all(engine.lab.inventory()) as hosts, open_run(scenario, hosts, Store(tmp_path)) as run:
                outcome = execute(run)
            assert (outcome.status, outcome.failures) == ("done", {})
            manifests.append(outcome.run.manifest())
    assert [each.cells[0].builds["app"].output_sha256 for each in manifests] == ids
    (change,) = setting_differences(*manifests)
    assert (change.before, change.after) == tuple(f"image {name}/app:latest with id {each[:12]}" for each in ids)
    engine.wait_for(before)


def test_data_is_fresh_and_prepared_at_each_start(bench: Bench, context: Path) -> None:
    host, options = bench.host, {"mounts": ["data:/data"], "prepare": ["/server", "prepare"]}
    service = bench.service(build={"context": str(context)}, **options)
    states = []
    for _ in range(2):
        running = bench.start(service)
        states.append(fetch(host, service, "/state"))
        deploy.stop(host, [running])
    assert states[0][0] == states[1][0] == 200
    assert states[0] != states[1]


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


def test_each_service_of_a_compose_file_is_measured_on_its_own(bench: Bench, context: Path) -> None:
    (bench.folder / "compose.yaml").write_text(COMPOSE.replace("CONTEXT", str(context)))
    app = {"backend": "compose", "file": "compose.yaml", "entry": "web:80", "listen": PORT}
    services, host = bench.plan(app=app).cells[0].services, bench.host
    assert [service.name for service in services] == ["app-db", "app"]
    running = [bench.start(service) for service in services]
    assert fetch(host, services[1], "/peer?db:5432/state") == (200, b"")
    used = host.call(ProcessTable.cpu_times, [each.id for each in [each.process for each in running]])
    assert all(0 < each.total_s < 5 for each in used.values())
    deploy.stop(host, running)
    host.sockets.require_free([PORT])


def test_what_a_lost_connection_leaves_is_removed_by_the_watchdog(
    engine: Engine, tmp_path: Path, context: Path
) -> None:
    before = engine.state()
    hosts = connect_all(engine.lab.inventory())
    hosts.lock("before-a-crash")
    bench = Bench(engine, hosts, tmp_path)
    bench.start(bench.service(build={"context": str(context)}, mounts=["data:/data"]))
    assert engine.state() != before
    agent = bench.host.processes.run(("sh", "-c", "echo $PPID")).stdout.decode().strip()
    with pytest.raises(HostError):
        bench.host.processes.run(("kill", "-9", agent))
    hosts["load"].close()
    with connect_all(engine.lab.inventory()) as others:
        others.lock("after-a-crash")  # waits for the watchdog
        others["sut"].sockets.require_free([PORT])
    engine.wait_for(before)
