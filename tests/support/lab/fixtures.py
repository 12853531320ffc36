"""Labs for single tests, and their traces on this machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchkit.lab.lab import Lab, down
from benchkit.lab.state import LabFolder, base_folder

_numbers = count()


@pytest.fixture
def lab_name() -> Iterator[str]:
    """A unique name; the lab of this name is removed at the end."""
    name = f"pytest-{os.getpid()}-{next(_numbers)}"
    try:
        yield name
    finally:
        down(name)


@pytest.fixture
def loopback() -> Iterator[None]:
    """Keep other tests, in any process, from holding the hosts on loopback: all of them have one lock."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def in_host() -> Callable[[Lab, str, str], Any]:
    """Run a Python script on a lab host over the real `ssh`, and return the JSON that it prints."""

    def run(lab: Lab, host: str, script: str) -> Any:  # noqa: ANN401 - any JSON value
        done = subprocess.run(
            [*lab.ssh_command(host), "python3", "-"],
            input=f"import json\n{script}",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def traces(name: str) -> dict[str, list[str]]:
    """Return everything of a lab on this machine: processes, links, mounts, control groups, files."""
    folder = LabFolder(base_folder(), name)
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            words = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and (folder.key in words or f"{folder.path}/" in words):
                processes.append(words)
    return {
        "processes": processes,
        "links": [path.name for path in Path("/sys/class/net").iterdir() if folder.key in path.name],
        "mounts": [
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if folder.key in line or str(folder.path) in line
        ],
        "groups": [
            path
            for path, _, _ in os.walk("/sys/fs/cgroup")  # os.walk ignores groups that are removed meanwhile
            if Path(path).name.startswith("benchkit-") and folder.key in Path(path).name
        ],
        "files": [str(path) for path in (folder.path, *folder.path.glob("**/*")) if path.exists()],
    }


@pytest.fixture(name="traces")
def _traces() -> Callable[[str], dict[str, list[str]]]:
    return traces
