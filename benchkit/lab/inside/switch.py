"""The first process of a lab: holds the switch between its hosts in a network namespace of its own.

The switch is a bridge, kept out of the machine's network namespace so that no firewall, no connection tracking and no
network manager of the machine touches what the hosts send each other; one cable leads to the machine. All hosts are
children of this process in its PID namespace: when it ends, for whatever reason, the kernel ends all of them. Host
number i is plugged into `port<i>`, in the network namespace of this process; taking that link down cuts the host off.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.lab.inside.kernel import CLONE_NEWNET, CLONE_NEWPID, unshare
from benchkit.lab.inside.messages import batch, receive, release_streams, say

_BRIDGE_HOOKS = Path("/proc/sys/net/bridge")
"""Where frames that only cross a bridge are shown to iptables (kernels with br_netfilter)."""


def run(config: Mapping[str, Any]) -> None:
    """Start the lab that `config` describes; stay until its last host has ended."""
    unshare(CLONE_NEWNET | CLONE_NEWPID, "network and process ids")
    child = os.fork()
    if child != 0:
        say({"pid": child})
        os._exit(0)
    _make_switch(config)
    hosts = [
        subprocess.Popen(host["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for host in config["hosts"]
    ]
    for process, host in zip(hosts, config["hosts"], strict=True):
        _configure(process, host["config"])
    if receive(sys.stdin) is None:
        os._exit(1)  # the one who builds the lab is gone
    batch(config["ip"], [f"link set {config['uplink']} master {config['bridge']} up"])
    for process, host in zip(hosts, config["hosts"], strict=True):
        answer = None if process.stdout is None else receive(process.stdout)
        say(answer or {"failed": f"host {host['name']} ended before it was ready", "refused": False})
    if receive(sys.stdin) is None:
        os._exit(1)
    release_streams()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _configure(process: subprocess.Popen[str], config: str) -> None:
    """Tell a host what to be. One that has ended already says why, or is missed, when it should be ready."""
    if process.stdin is None:
        raise TypeError("started without a pipe")
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(f"{config}\n")


def _make_switch(config: Mapping[str, Any]) -> None:
    """A bridge that only forwards."""
    bridge = config["bridge"]
    batch(config["ip"], ["link set lo up", f"link add {bridge} type bridge mcast_snooping 0", f"link set {bridge} up"])
    for hook in _BRIDGE_HOOKS.glob("bridge-nf-call-*"):
        hook.write_text("0")
