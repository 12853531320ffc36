"""The init process of a lab with namespaces: it has the switch between the hosts in its own network namespace.

The switch is a bridge. It is not in the machine's network namespace, so that no firewall, connection tracking or
network manager of the machine affects traffic between hosts; one link leads to the machine. All hosts are children of
this process in its PID namespace: when it ends, the kernel kills all of them. The link of host number i is `port<i>`,
in the network namespace of this process; setting it down disconnects the host.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.lab.inside.commands import run_batch
from benchkit.lab.inside.kernel import CLONE_NEWNET, CLONE_NEWPID, unshare
from benchkit.lab.inside.messages import detach_streams, receive, send

_BRIDGE_HOOKS = Path("/proc/sys/net/bridge")
"""Settings that pass bridged frames to iptables (kernels with br_netfilter)."""


def run(config: Mapping[str, Any]) -> None:
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
    """Send a host its configuration. The failure of a host that has ended already is found when its answer is read."""
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
