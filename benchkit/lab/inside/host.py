"""The init process of a lab host: it creates and prepares the host's namespaces, and ends with its sshd.

An outer process stays in the network namespace of the switch until it has connected the host's link there.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.lab.inside import mounts
from benchkit.lab.inside.commands import cap_link, open_log, run_batch, wait_for_banner
from benchkit.lab.inside.kernel import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS, unshare
from benchkit.lab.inside.messages import detach_streams, send


def run(config: Mapping[str, Any]) -> None:
    """Start the host of `config`, and run as its process 1 until its sshd ends."""
    os.dup2(open_log(config["log"]), 2)
    for part in config["cgroups"]:
        (Path(part["source"]) / "cgroup.procs").write_text("0")
    os.sched_setaffinity(0, config["cpus"])
    unshared_read, unshared_write = os.pipe()
    connected_read, connected_write = os.pipe()
    unshare(CLONE_NEWPID, "process ids")
    child = os.fork()
    if child == 0:
        os.close(connected_write)
        _run_as_process_one(config, connected_read, unshared_write)
    else:
        os.close(unshared_write)
        if os.read(unshared_read, 1):
            _connect(config)
            os.write(connected_write, b".")
        os._exit(0)


def _connect(config: Mapping[str, Any]) -> None:
    """Create the link from the switch to the host: `port` here, eth0 in the host's network namespace.

    `ip`, started from here, is in the PID namespace of the host, whose process 1 has the number 1 there.
    """
    port = config["port"]
    run_batch(
        config["ip"],
        [
            f"link add {port} type veth peer name eth0 netns 1",
            f"link set {port} master {config['bridge']} up",
        ],
    )
    if config["cap"]:
        cap_link(config["tc"], [f"qdisc add dev {port} {config['cap']}"])


def _run_as_process_one(config: Mapping[str, Any], connected_read: int, unshared_write: int) -> None:
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC, "network, mounts, name and IPC")
    os.write(unshared_write, b".")
    os.close(unshared_write)
    os.chdir("/")
    mounts.prepare(config)
    socket.sethostname(config["name"])
    if not os.read(connected_read, 1):
        os._exit(1)  # the outer process has sent the reason
    os.close(connected_read)
    run_batch(
        config["ip"],
        ["link set lo up", f"addr add {config['address']}/{config['prefix']} dev eth0", "link set eth0 up"],
    )
    capped = bool(config["cap"]) and cap_link(config["tc"], [f"qdisc add dev eth0 {config['cap']}"])
    sshd = subprocess.Popen(config["sshd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for_banner(config["address"], config["ssh_port"], sshd, config["deadline_s"], 2)
    send({"ready": config["name"], "capped": capped, "writable": mounts.writable_sysctls()})
    detach_streams()
    while True:
        pid, status = os.wait()  # a process 1 also reaps the orphans of its host
        if pid == sshd.pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
