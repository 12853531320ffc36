"""Operations on connected hosts over real SSH, in the lab."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, ScheduledProcess, ScheduledStart, SocketAddress
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.sockets import SocketProbes
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, connect
from benchkit.hosts.files import CHUNK_BYTES, PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.tuning import apply, plan
from tests.support.needs import kernel_settings, separate_hosts

FIN = "net.ipv4.tcp_fin_timeout"


@pytest.fixture
def folder(sut: Host) -> Iterator[str]:
    """A folder on the host, removed after the test."""
    sut.call(FileStore.mkdir, "test")
    yield "test"
    sut.call(FileStore.remove, "test")


@separate_hosts
def test_facts_are_those_of_the_host(hosts: Hosts, inventory: Inventory) -> None:
    for host in hosts:
        facts = host.facts
        assert facts.hostname == host.name
        assert inventory.named(host.name).address in [each for card in facts.interfaces for each in card.addresses]
        assert facts.os == "linux"
        assert facts.goarch
        assert facts.programs["sshd"].version
        assert facts.sysctls["net.core.somaxconn"]
        assert facts.clock_uncertainty_s > 0
        assert abs(facts.clock_offset_s) <= facts.clock_uncertainty_s, "hosts of a lab have this machine's clock"
        assert set(facts.cpus) <= os.sched_getaffinity(0)
        assert str(host.workdir) == facts.workdir
    if not set(hosts["sut"].facts.cpus) & set(hosts["load"].facts.cpus):
        assert sorted(hosts["sut"].facts.cpus + hosts["load"].facts.cpus) == sorted(os.sched_getaffinity(0))


def test_files_are_sent_once_and_come_back(sut: Host, folder: str, tmp_path: Path) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 17)
    (tmp_path / "big").write_bytes(content)
    wanted = [
        PlacedFile(f"{folder}/big", tmp_path / "big", 0o755),
        PlacedFile(f"{folder}/small", b"x"),
        PlacedFile(f"{folder}/e", b""),
    ]
    first = sut.files.place(wanted)
    assert (sorted(first.changed), first.sent_bytes) == (
        [f"{folder}/big", f"{folder}/e", f"{folder}/small"],
        len(content) + 1,
    )
    second = sut.files.place(wanted)
    assert (second.changed, second.sent_bytes) == ((), 0)
    assert sut.call(FileStore.list_folder, folder) == {"big": len(content), "small": 1, "e": 0}
    assert sut.files.read(f"{folder}/big") == content
    assert sut.files.read(f"{folder}/e") == b""
    assert sut.files.read(sut.workdir / folder / "big") == content
    mode = sut.processes.run(["stat", "-c", "%a", f"{folder}/big", f"{folder}/small"]).stdout
    assert mode == b"755\n644\n"
    assert sut.call(FileStore.remove, f"{folder}/big")
    assert not sut.call(FileStore.remove, f"{folder}/big")
    with pytest.raises(HostError, match="there is no"):
        sut.files.read(f"{folder}/big")


def test_processes_start_at_an_agreed_instant_on_all_hosts(hosts: Hosts) -> None:
    at_s = time.monotonic() + 0.5

    def run(host: Host) -> list[ScheduledProcess]:
        at_ns, limit_ns = host.clock.to_host_ns(at_s), host.clock.to_host_ns(at_s + 1)
        start = ScheduledStart("sleeper", ProcessSpec(["sleep", "60"]), at_ns, limit_ns, grace_s=5)
        return host.processes.run_timetable([start] * 3)

    ended = hosts.map(run)
    here = [
        host.clock.to_controller_s(each.process.started_ns) - at_s
        for host, group in zip(hosts, ended, strict=True)
        for each in group
    ]
    assert len(here) == 6
    assert all(-0.005 < late < 10 for late in here), here
    assert all(each.overran for group in ended for each in group)
    assert {str(each.process.ended) for group in ended for each in group} == {"signal SIGINT"}


SERVER = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"hi" + b"\\n")
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


def test_a_service_comes_answers_and_goes(hosts: Hosts, sut: Host, inventory: Inventory) -> None:
    at = SocketAddress("tcp", inventory.named("sut").address, 40080)
    server = sut.processes.start(ProcessSpec(["python3", "-c", SERVER, at.address, str(at.port)]))
    assert sut.sockets.wait_open(at, 60, server) < 60
    assert hosts["load"].sockets.wait_open(at, 60) < 60, "over the network"
    answer = hosts["load"].sockets.get_http(at, "/x?y=1")
    assert (answer.status, answer.body) == (200, b"hi\n")
    (owner,) = sut.call(SocketProbes.port_owners, [at.port])[at.port]
    assert (owner.pid, owner.address) == (server.pid, at.address)
    with pytest.raises(HostError, match=rf"sut: a port is taken: port 40080 by python3?\S* \(pid {server.pid}\)"):
        sut.sockets.require_free([at.port])
    sut.processes.stop([server])
    sut.sockets.require_free([at.port])


@kernel_settings
def test_tuning_is_applied_verified_and_restored_at_the_end(hosts: Hosts, inventory: Inventory) -> None:
    spec = inventory.named("sut").model_copy(update={"workdir": f"{hosts['sut'].facts.workdir}-tuning"})
    profile = {FIN: 30, "net.ipv4.tcp_tw_recycle": 1, "net.ipv4.tcp_syncookies": 1, "vm.swappiness": 1}
    watcher = hosts["sut"]
    before = watcher.call(Sysctls.read, list(profile))
    with connect(spec) as host:
        facts = host.facts
        planned = plan(
            spec,
            profile,
            host.call(Sysctls.read, list(profile)),
            root=facts.root,
            can_sudo=facts.can_sudo,
            not_isolated=inventory.not_isolated,
        )
        assert planned.values == {FIN: "30"}
        assert any(
            "not applied, this host has no such setting: " in each and "tcp_tw_recycle = 1" in each
            for each in planned.sentences()
        )
        assert any("not isolated, not applied" in each and "vm.swappiness = 1" in each for each in planned.sentences())
        tuned = apply(host, planned)
        assert tuned.sentences == ()
        assert tuned.written[FIN].value == watcher.call(Sysctls.read, [FIN])[FIN].value == "30"
        (record,) = host.call(Undo.traces).records
        assert (record.kind, record.state, record.text) == ("sysctl", "mine", f"{FIN} (was {before[FIN].value})")
    assert watcher.call(Sysctls.read, list(profile)) == before


CONTROLLER = """
import sys, time
from benchkit.agent.operations import ProcessSpec
from benchkit.agent.settings import Sysctls
from benchkit.hosts.connections import connect
from benchkit.hosts.inventory import HostSpec
host = connect(HostSpec.model_validate_json(sys.argv[1]))
host.processes.start(ProcessSpec(["/bin/sh", "-c", "trap '' TERM; sleep 62 & sleep 63; sleep 64"]))
print(host.call(Sysctls.write, {sys.argv[2]: "33"})[sys.argv[2]].outcome, flush=True)
time.sleep(60)
"""


@kernel_settings
def test_a_controller_that_is_killed_leaves_nothing_on_the_host(sut: Host, inventory: Inventory) -> None:
    workdir = f"{sut.facts.workdir}-killed"
    spec = inventory.named("sut").model_copy(update={"workdir": workdir})
    former = sut.call(Sysctls.read, [FIN])
    mine = ["/bin/sh", "-c", f"ps -eo args | grep -e '[s]leep 6[234]' -e '[e]xec.*{workdir}'"]
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, spec.model_dump_json(), FIN], stdout=subprocess.PIPE
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"applied\n"
        assert sut.call(Sysctls.read, [FIN])[FIN].value == "33"
        deadline = time.monotonic() + 50
        while len(sut.processes.run(mine).stdout.splitlines()) < 3:
            assert time.monotonic() < deadline
        controller.kill()
    killed = time.monotonic()
    while sut.processes.run(mine).stdout or sut.call(Sysctls.read, [FIN]) != former:
        assert time.monotonic() - killed < 60, sut.processes.run(mine).stdout
        time.sleep(0.05)


def test_a_host_whose_agent_is_killed_is_named_and_restored(hosts: Hosts, inventory: Inventory) -> None:
    spec = inventory.named("load").model_copy(update={"workdir": f"{hosts['load'].facts.workdir}-dies"})
    host = connect(spec)
    process = host.processes.start(ProcessSpec(["sleep", "60"]))
    parent = host.processes.run(["/bin/sh", "-c", "echo $PPID"]).stdout.decode().strip()
    hosts["load"].processes.run(["kill", "-KILL", parent])
    with pytest.raises(HostError, match="load: the agent ended"):
        process.wait(30)
    with pytest.raises(HostError, match="load: the agent ended"):
        host.compare_clocks()
    assert any("shutdown not confirmed" in failure for failure in host.close())
    with connect(spec) as after:
        after.call(WatchdogLink.lock, "a run", spec.name, "a test")  # waits until everything is restored
        state = after.call(Undo.traces)
        assert state.records == []
        (report,) = state.reports
        assert report.reason == "its agent was killed"
        assert f"process sleep ({process.pid})" in report.undone
        after.call(Records.delete_report, report.name)
