"""Init processes of a lab, each configured by the first line on its stdin.

`benchkit.lab.processes` starts them. An init process sends errors to stdout as messages; its stderr is its log.

In a lab with namespaces, the switch between hosts is a bridge in a network namespace of its own. So no firewall,
connection tracking or network manager of the machine affects traffic between hosts. One link leads to the machine. All
hosts are children of the switch process in its PID namespace: when it ends, the kernel kills all of them. Host number
i has the link `port<i>` there; setting the link down disconnects the host.

A lab without namespaces has a supervisor: the parent of one sshd for each host, and of all orphans below it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from benchkit.agent.proc import become_subreaper
from benchkit.lab.inside.host import run_host
from benchkit.lab.inside.system import (
    CLONE_NEWNET,
    CLONE_NEWPID,
    CommandError,
    KernelRefusalError,
    detach_streams,
    open_log,
    receive,
    run_batch,
    send,
    set_parent_death_signal,
    unshare,
    wait_for_banner,
)

_BRIDGE_HOOKS = Path("/proc/sys/net/bridge")
"""Settings that pass bridged frames to iptables (kernels with br_netfilter)."""


def run_switch(config: Mapping[str, Any]) -> None:
    """Start the hosts of `config`, and run until the last one has ended."""
    unshare(CLONE_NEWNET | CLONE_NEWPID, "network and process ids")
    child = os.fork()
    if child != 0:
        send({"pid": child})
        os._exit(0)
    _make_switch(config)
    hosts = [
        subprocess.Popen(host["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for host in config["hosts"]
    ]
    for process, host in zip(hosts, config["hosts"], strict=True):
        _configure(process, host["config"])
    if receive(sys.stdin) is None:
        os._exit(1)  # the process that starts the lab has ended
    run_batch(config["ip"], [f"link set {config['uplink']} master {config['bridge']} up"])
    for process, host in zip(hosts, config["hosts"], strict=True):
        answer = None if process.stdout is None else receive(process.stdout)
        send(answer or {"failed": f"host {host['name']} ended before it was ready", "refused": False})
    if receive(sys.stdin) is None:
        os._exit(1)
    detach_streams()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _configure(process: subprocess.Popen[str], config: str) -> None:
    """Send a host its configuration; for a host that has already ended, reading its answer will fail."""
    if process.stdin is None:
        raise TypeError("the process has no pipe")
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(f"{config}\n")


def _make_switch(config: Mapping[str, Any]) -> None:
    """Create a bridge that only forwards."""
    bridge = config["bridge"]
    run_batch(
        config["ip"], ["link set lo up", f"link add {bridge} type bridge mcast_snooping 0", f"link set {bridge} up"]
    )
    for hook in _BRIDGE_HOOKS.glob("bridge-nf-call-*"):
        hook.write_text("0")


def run_supervisor(config: Mapping[str, Any]) -> None:
    """Start an sshd for each host of `config`, and run until the last one has ended."""
    if os.fork() != 0:
        os._exit(0)  # detached: the process that starts the lab does not wait for this one
    become_subreaper()
    servers: list[subprocess.Popen[bytes]] = []

    def end(_number: int, _frame: FrameType | None) -> None:
        _stop(servers)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    logs: list[int] = []
    own_id = os.getpid()
    all_cpus = os.sched_getaffinity(0)
    for host in config["hosts"]:
        os.sched_setaffinity(0, host["cpus"])  # inherited by the process started next
        logs.append(open_log(host["log"]))
        servers.append(
            subprocess.Popen(
                host["sshd"],
                stdin=subprocess.DEVNULL,
                stdout=logs[-1],
                stderr=logs[-1],
                preexec_fn=partial(set_parent_death_signal, own_id),  # noqa: PLW1509 - this process has one thread
            )
        )
    os.sched_setaffinity(0, all_cpus)
    try:
        for host, server, log in zip(config["hosts"], servers, logs, strict=True):
            wait_for_banner(host["address"], host["port"], server, config["deadline_s"], log)
            send({"ready": host["name"], "capped": False, "writable": []})
    except BaseException:
        _stop(servers)
        raise
    if receive(sys.stdin) is None:
        _stop(servers)
        os._exit(1)
    detach_streams()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _stop(servers: list[subprocess.Popen[bytes]]) -> None:
    for server in servers:
        if server.poll() is None:
            server.terminate()


_KINDS = {"switch": run_switch, "host": run_host, "supervisor": run_supervisor}


def main() -> None:
    """Run the init process that the first line on stdin describes; on failure send the reason and exit."""
    config = receive(sys.stdin)
    if config is None:
        os._exit(1)  # the process that started this one has ended
    try:
        _KINDS[config["kind"]](config)
    except KernelRefusalError as error:
        _fail(str(error.strerror), refused=True)
    except CommandError as error:
        _fail(str(error), refused=error.refused)
    except OSError as error:
        _fail(str(error), refused=False)


def _fail(why: str, *, refused: bool) -> None:
    send({"failed": why, "refused": refused})
    os._exit(1)
