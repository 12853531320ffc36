"""The first process of a lab host: makes the host's namespaces, dresses them up, and ends with its sshd.

An outer process stays in the namespace of the switch just long enough to plug the host's link in there.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.lab.inside import mounts
from benchkit.lab.inside.kernel import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS, unshare
from benchkit.lab.inside.messages import batch, cap_link, open_log, release_streams, say, wait_for_banner


def run(config: Mapping[str, Any]) -> None:
    """Start the host that `config` describes, and be its process 1 until its sshd ends."""
    os.dup2(open_log(config["log"]), 2)
    for part in config["cgroups"]:
        (Path(part["source"]) / "cgroup.procs").write_text("0")
    os.sched_setaffinity(0, config["cpus"])
    unshared, unshared_in = os.pipe()
    wired, wired_in = os.pipe()
    unshare(CLONE_NEWPID, "process ids")
    child = os.fork()
    if child == 0:
        os.close(wired_in)
        _be_process_one(config, wired, unshared_in)
    else:
        os.close(unshared_in)
        if os.read(unshared, 1):
            _plug_in(config)
            os.write(wired_in, b".")
        os._exit(0)


def _plug_in(config: Mapping[str, Any]) -> None:
    """A cable from the switch to the host: `port` here, eth0 in the host's network namespace.

    `ip`, started from here, is in the PID namespace of the host, whose process 1 has the number 1 there.
    """
    port = config["port"]
    batch(
        config["ip"],
        [
            f"link add {port} type veth peer name eth0 netns 1",
            f"link set {port} master {config['bridge']} up",
        ],
    )
    if config["cap"]:
        cap_link(config["tc"], [f"qdisc add dev {port} {config['cap']}"])


def _be_process_one(config: Mapping[str, Any], wired: int, unshared: int) -> None:
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC, "network, mounts, name and IPC")
    os.write(unshared, b".")
    os.close(unshared)
    os.chdir("/")
    mounts.prepare(config)
    socket.sethostname(config["name"])
    if not os.read(wired, 1):
        os._exit(1)  # the outer process said why
    os.close(wired)
    batch(
        config["ip"],
        ["link set lo up", f"addr add {config['address']}/{config['prefix']} dev eth0", "link set eth0 up"],
    )
    capped = bool(config["cap"]) and cap_link(config["tc"], [f"qdisc add dev eth0 {config['cap']}"])
    sshd = subprocess.Popen(config["sshd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for_banner(config["address"], config["ssh_port"], sshd, config["deadline_s"], 2)
    say({"ready": config["name"], "capped": capped, "writable": mounts.writable_sysctls()})
    release_streams()
    while True:
        pid, status = os.wait()  # a process 1 also buries the orphans of its host
        if pid == sshd.pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
