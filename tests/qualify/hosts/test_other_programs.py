"""Tests of the programs that use CPU time besides a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil

from benchkit.agent.operations import ProcessSpec
from benchkit.hosts.connections import connect_all
from benchkit.hosts.other_programs import (
    take_snapshot,
    wait_until_idle,
)
from benchkit.lab.lab import Lab

LOOP = "while True: pass"
MARK = "a-loop-in-the-lab"


def test_program_beside_a_lab_is_seen_and_those_of_the_lab_are_not(lab: Lab) -> None:
    reports: list[str] = []
    started = subprocess.run(  # an orphan: children of this process, which is the controller, are the run's own
        ["sh", "-c", f"{sys.executable} -c '{LOOP}' >/dev/null 2>&1 & echo $!"], capture_output=True, check=True
    )
    pid = int(started.stdout)
    try:
        with connect_all(lab.inventory()) as hosts:
            host = next(iter(hosts))
            own = host.processes.start(ProcessSpec(("python3", "-c", LOOP, MARK)))
            before = take_snapshot(hosts)
            time.sleep(1.0)
            after = take_snapshot(hosts)
            own_pids = [each.pid for each in psutil.process_iter(["cmdline"]) if MARK in (each.info["cmdline"] or ())]
            host.processes.stop([own])
            wait_until_idle(hosts, 1.0, 0.01, reports.append)
            wait_until_idle(hosts, 60.0, 1000.0, reports.append)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert reports[-1].startswith("another program, ")
    assert reports[-1].endswith(" still, after 1 s of waiting")
    seen = {each.pid for each in after.processes.values()}
    assert pid in seen
    assert os.getpid() not in seen
    assert own_pids
    assert seen.isdisjoint(own_pids)
    program = next(each for each in after.processes.values() if each.pid == pid)
    assert program.name.startswith("python")
    assert program.cpu_s > next(each.cpu_s for each in before.processes.values() if each.pid == pid)
