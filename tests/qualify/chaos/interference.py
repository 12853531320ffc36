"""Interference with a lab's hosts during runs: load tools held, memory exhausted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from benchkit.lab.lab import Lab
from tests.faults.disturbances import processes_of
from tests.qualify.chaos.kit import Running, on_host
from tests.support.waiting import wait_until

AB = "/usr/bin/ab"

HOLD = """#!/bin/sh
[ "$1" = -V ] && exec /run/instead/real -V
touch /run/instead/held
until [ -e /run/instead/go ]; do sleep 0.02; done
exec /run/instead/real "$@"
"""

HOG = """
import sys
kept, group = [], sys.argv[1]
open(f"{group}/cgroup.procs", "w").write("0")
while "oom_kill 0" in open(f"{group}/memory.oom_control").read():
    kept.append(b"x" * 1000000)
"""


@contextmanager
def replaced_program(lab: Lab, host: str, program: str, text: str) -> Iterator[None]:
    """Replace a program on one host by a script, which finds the program as `/run/instead/real`."""
    if lab.state.mode != "namespaces":
        pytest.skip("hosts of this user's lab have no files of their own")
    on_host(
        lab,
        host,
        f"set -e; mkdir /run/instead; cp {program} /run/instead/real\n"
        f"cat > /run/instead/script << 'END'\n{text}END\n"
        f"chmod 755 /run/instead/script; mount --bind /run/instead/script {program}",
    )
    try:
        yield
    finally:
        on_host(lab, host, f"umount -l {program} && rm -rf /run/instead")


@dataclass(frozen=True)
class HeldLoadTool:
    """A load tool that waits at its start."""

    lab: Lab
    host: str

    def wait(self, running: Running) -> None:
        """Wait until the load tool of a command waits; the services of its trial are up then."""
        while not on_host(self.lab, self.host, "[ ! -e /run/instead/held ] || echo it is"):
            assert running.is_alive(), running.err.read_text()
            time.sleep(0.02)

    def release(self) -> None:
        """Release the load tool, and all later ones."""
        on_host(self.lab, self.host, "touch /run/instead/go")


@contextmanager
def hold_load_tool(lab: Lab, host: str) -> Iterator[HeldLoadTool]:
    """Hold ab on a host at its start until it is released."""
    with replaced_program(lab, host, AB, HOLD):
        made = HeldLoadTool(lab, host)
        yield made
        made.release()


def memory_group() -> Path:
    """Return the control group that limits the memory of this process."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = Path("/sys/fs/cgroup/memory", path.lstrip("/"))
        if "memory" in controllers.split(",") and os.access(group, os.W_OK):
            return group
    pytest.skip("there are no control groups of version 1 that limit memory here")


@contextmanager
def limited_memory(lab: Lab, host: str, size: int) -> Iterator[Path]:
    """Limit a host to `size` bytes of memory; give the group that holds its processes."""
    parent = memory_group()
    group = parent / f"benchkit-{lab.state.lab_id}-{host}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(size))
    for each in processes_of(lab, host):
        (group / "cgroup.procs").write_text(str(each.pid))
    try:
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        _remove(group)


def exhaust_memory(lab: Lab, host: str, group: Path, victim: str) -> None:
    """Take memory on a host until the kernel kills a process for it; then free it.

    The kernel kills the process with the most memory; this makes it the process named `victim`.
    """
    (found,) = (each for each in processes_of(lab, host) if each.name() == victim)
    Path(f"/proc/{found.pid}/oom_score_adj").write_text("1000")
    hog = subprocess.run([sys.executable, "-c", HOG, str(group)], check=False, timeout=60)
    assert hog.returncode in (0, -signal.SIGKILL), (
        "the kernel may kill the hog, too, before the first victim's memory is free"
    )
    wait_until(lambda: not found.is_running() or found.status() == psutil.STATUS_ZOMBIE)  # a kill takes a moment


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 60
    while True:  # the kernel may need a moment until the group is empty
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
