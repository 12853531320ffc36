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
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.agent.proc import become_subreaper
from benchkit.lab.inside.host import run_host
from benchkit.lab.inside.system import (
    CommandError,
    detach_streams,
    is_refusal,
    open_log,
    receive,
    run_batch,
    send,
    wait_for_banner,
)

_BRIDGE_HOOKS = Path("/proc/sys/net/bridge")
"""Settings that pass bridged frames to iptables (kernels with br_netfilter)."""


def run_switch(config: Mapping[str, Any]) -> None:
    """Start the hosts of `config`, and run until the last one has ended."""
    _make_switch(config)
    send({"pid": int(os.readlink("/proc/self"))})  # noqa: PTH115 - in the namespace of /proc, the machine's
    hosts = [
        subprocess.Popen(host["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for host in config["hosts"]
    ]
    for process, host in zip(hosts, config["hosts"], strict=True):
        _tell(process, host["config"])
    if receive(sys.stdin) is None:
        os._exit(1)  # the process that starts the lab has ended
    run_batch(config["ip"], [f"link set {config['uplink']} master {config['bridge']} up"])
    for process, host in zip(hosts, config["hosts"], strict=True):
        _require_answer(process, host)
        _connect(config, host, process.pid)
        _tell(process, "{}")
    for process, host in zip(hosts, config["hosts"], strict=True):
        send(_require_answer(process, host))
    if receive(sys.stdin) is None:
        os._exit(1)
    detach_streams()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _require_answer(process: subprocess.Popen[str], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next message of a host. Raises CommandError where it failed."""
    answer = None if process.stdout is None else receive(process.stdout)
    if answer is None:
        raise CommandError(f"host {host['name']} ended before it was ready")
    if "failed" in answer:
        raise CommandError(answer["failed"])
    return answer


def _connect(config: Mapping[str, Any], host: Mapping[str, Any], pid: int) -> None:
    """Create the link from the switch to the host: `port` here, eth0 in the network namespace of process `pid`."""
    port = host["port"]
    run_batch(
        config["ip"],
        [
            f"link add {port} type veth peer name eth0 netns {pid}",
            f"link set {port} master {config['bridge']} up",
        ],
    )
    if host["cap"]:
        run_batch(config["tc"], [f"qdisc add dev {port} {host['cap']}"])


def _tell(process: subprocess.Popen[str], message: str) -> None:
    """Send a host a message; for a host that has already ended, reading its answer will fail."""
    if process.stdin is None:
        raise TypeError("the process has no pipe")
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"{message}\n")
        process.stdin.flush()


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
    become_subreaper()
    servers: list[subprocess.Popen[bytes]] = []
    logs: list[int] = []
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
            )
        )
    os.sched_setaffinity(0, all_cpus)
    for host, server, log in zip(config["hosts"], servers, logs, strict=True):
        wait_for_banner(host["address"], host["port"], server, config["deadline_s"], log)
        send({"ready": host["name"]})
    if receive(sys.stdin) is None:
        os._exit(1)  # which ends the servers
    detach_streams()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


_KINDS = {"switch": run_switch, "host": run_host, "supervisor": run_supervisor}


def main() -> None:
    """Run the init process that the first line on stdin describes; on failure send the reason and exit."""
    config = receive(sys.stdin)
    if config is None:
        os._exit(1)  # the process that started this one has ended
    try:
        _KINDS[config["kind"]](config)
    except (CommandError, OSError) as error:
        send({"failed": str(error), "refused": isinstance(error, CommandError) and is_refusal(str(error))})
        os._exit(1)
