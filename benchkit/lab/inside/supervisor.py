"""The init process of a lab without namespaces: the parent of one sshd per host, and of all orphans below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from types import FrameType
from typing import Any

from benchkit.lab.inside.commands import open_log, wait_for_banner
from benchkit.lab.inside.kernel import become_subreaper, die_with
from benchkit.lab.inside.messages import detach_streams, receive, send


def run(config: Mapping[str, Any]) -> None:
    """Start an sshd for each host of `config`, and run until the last one has ended."""
    if os.fork() != 0:
        os._exit(0)  # detached from the process that starts the lab, which will not wait for this one
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
                preexec_fn=partial(die_with, own_id),  # noqa: PLW1509 - this process has one thread
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
