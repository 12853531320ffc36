"""Lab hosts from the inside, over the real `ssh`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchkit.lab.lab import Lab, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.support.needs import separate_hosts

InHost = Callable[[Lab, str, str], Any]

FACTS = """
import os, socket
from pathlib import Path
def attempt(path, value):
    try:
        Path(path).write_text(value)
    except OSError as error:
        return error.strerror
    return Path(path).read_text().strip()
def read(path): return Path(path).read_text()
print(json.dumps({
    "hostname": socket.gethostname(),
    "pids": [int(name) for name in os.listdir("/proc") if name.isdigit()],
    "init": read("/proc/1/cmdline"),
    "cpus": sorted(os.sched_getaffinity(0)),
    "links": sorted(os.listdir("/sys/class/net")),
    "tmp": os.listdir("/tmp"),
    "hosts": read("/etc/hosts"),
    "etc_hostname": read("/etc/hostname"),
    "logs": [name for _, _, files in os.walk("/var/log") for name in files],
    "somaxconn": attempt("/proc/sys/net/core/somaxconn", "12345"),
    "tw_reuse": attempt("/proc/sys/net/ipv4/tcp_tw_reuse", "1"),
    "ports": attempt("/proc/sys/net/ipv4/ip_local_port_range", "1025 65535"),
    "file_max": attempt("/proc/sys/fs/file-max", "12345"),
    "swappiness": attempt("/proc/sys/vm/swappiness", "1"),
    "sysrq": attempt("/proc/sysrq-trigger", "h"),
    "sys": attempt("/sys/class/net/lo/ifalias", "x"),
    "mark": os.environ["BENCHKIT_LAB_HOST"].rpartition(":")[2],
    "peer": socket.create_connection(("load", 22), 20).recv(4).decode(),
    "controller": socket.gethostbyname("controller"),
    "ipc": os.readlink("/proc/self/ns/ipc"),
}))
"""


def _machine(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


@separate_hosts
def test_a_lab_host_has_its_own_view_of_the_system(lab_name: str, in_host: InHost) -> None:
    unchanged = (
        "net/core/somaxconn",
        "net/ipv4/tcp_tw_reuse",
        "net/ipv4/ip_local_port_range",
        "fs/file-max",
        "vm/swappiness",
    )
    before = {key: _machine(f"/proc/sys/{key}") for key in unchanged}
    lab = up(LabSpec(name=lab_name))
    facts = in_host(lab, "sut", FACTS)
    assert facts["hostname"] == "sut"
    assert facts["etc_hostname"] == "sut\n"
    assert len(facts["pids"]) < 12
    assert "benchkit.lab" in facts["init"]
    assert facts["links"] == ["eth0", "lo"]
    assert facts["tmp"] == []
    assert facts["logs"] == []
    assert facts["mark"] == "host/sut"
    assert facts["ipc"] != str(Path("/proc/self/ns/ipc").readlink())
    addresses = {host.name: host.address for host in lab.hosts}
    assert f"{addresses['sut']} sut\n{addresses['load']} load\n" in facts["hosts"]
    assert facts["peer"] == "SSH-"
    assert facts["controller"] == addresses["sut"].rpartition(".")[0] + ".1"

    assert facts["somaxconn"] == "12345"  # the host's own
    assert facts["tw_reuse"] == "1"
    assert facts["ports"].split() == ["1025", "65535"]
    assert facts["file_max"] == "Read-only file system"  # the machine's
    assert facts["swappiness"] == "Read-only file system"
    assert facts["sysrq"] in ("Read-only file system", "No such file or directory")  # some kernels do not have it
    assert facts["sys"] == "Read-only file system"
    assert {key: _machine(f"/proc/sys/{key}") for key in unchanged} == before
    other = in_host(lab, "load", 'print(json.dumps(open("/proc/sys/net/core/somaxconn").read()))')
    assert other.strip() != "12345"


def test_server_and_load_host_share_no_cpu(lab: Lab, in_host: InHost) -> None:
    script = "import os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    seen = {host.name: in_host(lab, host.name, script) for host in lab.hosts}
    assert seen == {host.name: list(host.cpus) for host in lab.hosts}
    usable = os.sched_getaffinity(0)
    if len(usable) > 1:
        assert not set(seen["sut"]) & set(seen["load"])
        assert {cpu for cpus in seen.values() for cpu in cpus} == usable
    else:
        assert any("share CPU" in limit for limit in lab.inventory().limits)


@separate_hosts
def test_each_role_can_have_its_own_hosts(lab_name: str, in_host: InHost) -> None:
    lab = up(
        LabSpec(
            name=lab_name,
            hosts=(
                LabHost(name="web", roles=("sut",)),
                LabHost(name="front", roles=("nginx",)),
                LabHost(name="c1", roles=("load",)),
                LabHost(name="c2", roles=("load",)),
            ),
        )
    )
    assert [host.name for host in lab.inventory().by_role("load")] == ["c1", "c2"]
    script = """
import socket
names = ("web", "front", "c1", "c2")
print(json.dumps([socket.create_connection((name, 22), 20).recv(4).decode() for name in names]))
"""
    assert in_host(lab, "c1", script) == ["SSH-"] * 4


def test_only_the_labs_keys_are_accepted_and_trusted(lab: Lab, tmp_path: Path) -> None:
    command = lab.ssh_command("sut")

    def ssh(*options: str) -> subprocess.CompletedProcess[str]:
        full = [command[0], *options, *command[1:], "true"]
        return subprocess.run(full, capture_output=True, text=True, timeout=30, check=False)

    assert ssh().returncode == 0
    unknown = ssh("-o", "UserKnownHostsFile=/dev/null")
    assert unknown.returncode == 255
    assert "Host key verification failed" in unknown.stderr
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    other_key = subprocess.run(
        [
            *("ssh", "-F", "none", "-i", str(tmp_path / "other"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
            *("-o", f"UserKnownHostsFile={lab.folder.known_hosts}", "-p", str(lab.hosts[0].port)),
            *(f"{lab.state.user}@{lab.hosts[0].address}", "true"),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert other_key.returncode == 255
    assert "Permission denied (publickey)" in other_key.stderr
