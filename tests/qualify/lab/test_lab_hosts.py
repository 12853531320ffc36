"""Lab hosts from the inside, over the real `ssh`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_login_shells_skip_the_users_start_up_files(lab: Lab) -> None:
    """A shell that is not the outermost one reads none; they would add to PATH, or hang."""
    command = [*lab.ssh_command("sut"), 'echo "$SHLVL $PATH"']
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    level, _, path = said.partition(" ")
    assert int(level) > 1
    assert path.split(":") == [each for each in os.environ["PATH"].split(":") if each != str(Path(sys.prefix) / "bin")]


@separate_hosts
def test_sysctls_that_are_not_isolated_are_listed(lab: Lab) -> None:
    listed = set(lab.inventory().not_isolated)
    assert {
        "fs.file-max",
        "fs.nr_open",
        "vm.swappiness",
        "vm.overcommit_memory",
        "net.core.netdev_max_backlog",
        "net.core.rmem_max",
    } <= listed
    assert not {"net.core.somaxconn", "net.ipv4.tcp_tw_reuse", "net.ipv4.ip_local_port_range"} & listed
    assert all(Path("/proc/sys", key.replace(".", "/")).exists() for key in ("fs.file-max", "vm.swappiness"))


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


def test_with_shared_every_host_has_every_cpu(lab_name: str, in_host: InHost) -> None:
    lab = up(LabSpec(name=lab_name, shared=True))
    script = "import os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    for host in lab.hosts:
        assert in_host(lab, host.name, script) == sorted(os.sched_getaffinity(0))
    assert any("sut and load share CPU" in limit for limit in lab.inventory().limits)


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


def test_a_host_can_be_a_jump_host(lab: Lab) -> None:
    command = lab.ssh_command("load")
    done = subprocess.run(
        [*command[:-1], "-o", f"ProxyCommand=ssh -F {lab.folder.ssh_config} -W %h:%p sut", "load", "echo", "there"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "there\n", done.stderr


@separate_hosts
def test_a_cpu_quota_limits_a_host(lab: Lab, in_host: InHost) -> None:
    """Use more CPU time than a quota allows at once.

    The quota of 1 ms in 100 ms is less than any scheduler's time slice, and the load is CPU time instead of time. So
    the quota is reached also on a machine that leaves this process little CPU time.
    """
    if not lab.state.cgroups:
        pytest.skip("no control groups on this machine")
    script = """
import time
from pathlib import Path
root = Path("/sys/fs/cgroup")
first = (root / "cpu").is_dir() or any(root.glob("cpu,*"))
group = next(iter([*root.glob("cpu,cpuacct"), *root.glob("cpu"), root]))
quota, none = (("cpu.cfs_quota_us", "-1") if first else ("cpu.max", "max"))
def throttled():
    return int(dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())["nr_throttled"])
before = throttled()
(group / quota).write_text("1000")
try:
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.02: pass
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
finally:
    (group / quota).write_text(none)
print(json.dumps({"share": share, "throttled": throttled() - before}))
"""
    seen = in_host(lab, "sut", script)
    assert seen["share"] < 0.1  # a hundredth is allowed
    assert seen["throttled"] > 0
