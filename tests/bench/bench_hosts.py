"""Cost of hosts: the start of a lab, and a request to a host."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab

pytestmark = pytest.mark.lab

BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
TIMES = 7
MESSAGES = 500


def test_lab_up_takes_at_most_three_seconds() -> None:
    name = f"bench-{os.getpid()}"
    environment = {**os.environ, "BENCHKIT_LAB": name}
    times = []
    for _ in range(TIMES):
        started = time.perf_counter()
        subprocess.run([BENCHKIT, "lab", "up"], env=environment, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
        subprocess.run([BENCHKIT, "lab", "down"], env=environment, stdout=subprocess.DEVNULL, check=True)
    print(f"\nbenchkit lab up, whole process: median {statistics.median(times):.2f} s, at most {max(times):.2f} s")
    assert max(times) <= 3


def test_a_request_takes_less_than_a_login(lab: Lab) -> None:
    with connect_all(lab.inventory()) as hosts:
        sut, times = hosts["sut"], []
        for _ in range(MESSAGES):
            began = time.perf_counter()
            sut.link.request("clock", {})
            times.append(time.perf_counter() - began)
    began = time.perf_counter()
    subprocess.run([*lab.ssh_command("sut"), "true"], check=True)
    login_s = time.perf_counter() - began
    message_s = statistics.median(times)
    print(
        f"\na message to a connected host: median {message_s * 1e3:.2f} ms; a login that runs `true`: {login_s:.2f} s"
    )
    assert message_s < login_s / 10
