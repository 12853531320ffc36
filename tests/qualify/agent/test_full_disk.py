"""A full disk under the work directory: nothing is left running or half written, and the message names the disk."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.agent_link import AgentLink

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root"),
]

Launch = Callable[..., AgentLink]
PAGE = os.sysconf("SC_PAGE_SIZE")
"""Smallest piece of a tmpfs, and enough for a record."""
MARK = f"31415.{os.getpid()}"
"""Argument of `sleep` by which a test finds its process; no other process here has it."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB and 200 inodes for the work directory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=200,mode=700", "small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *, free_pages: int = 0) -> Path:
    """Fill a disk except for some pages; return the file that does."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PAGE))
        except OSError:
            os.ftruncate(file.fileno(), file.tell() - free_pages * PAGE)
    return filler


def sleepers() -> list[str]:
    """Return the pids of the processes that the tests of this module start."""
    wanted = f"sleep\0{MARK}\0".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes() == wanted:
                found.append(folder.name)
        except OSError:
            continue
    return found


def start(agent: AgentLink) -> ops.ProcessReport:
    return agent.call(ProcessTable.start, ops.ProcessSpec(argv=["sleep", MARK]))


def records_folder(agent: AgentLink) -> list[str]:
    return sorted(path.name for path in Path(agent.hello().workdir, "records").iterdir())


@pytest.mark.parametrize("free_pages", [0, 1], ids=["nothing can be recorded", "the pid cannot be recorded"])
def test_a_refused_start_leaves_no_process_and_no_record(launch: Launch, disk: Path, free_pages: int) -> None:
    agent = launch(workdir=disk / "work")
    agent.hello()
    filler = fill(disk, free_pages=free_pages)
    with pytest.raises(
        HostStateError, match=rf"here: the disk of {disk}/work is full: .*No space left.* MB are free, and"
    ):
        start(agent)
    assert sleepers() == []
    assert records_folder(agent) == []
    filler.unlink()
    process = start(agent)
    deadline = time.monotonic() + 60
    while (
        not sleepers() and time.monotonic() < deadline
    ):  # it has the command line of `sleep` once it has been executed
        time.sleep(0.01)
    assert sleepers() == [str(process.pid)]
    agent.call(ProcessTable.stop, numbers=[process.id], signum=15, grace_s=5)
    assert sleepers() == []


def test_an_agent_that_cannot_be_stored_leaves_nothing(launch: Launch, disk: Path) -> None:
    (disk / "work").mkdir(mode=0o700)
    (disk / "work/agent").mkdir(mode=0o700)
    fill(disk, free_pages=1)
    with pytest.raises(HostError, match=f"cannot use the work directory {disk}/work: No space left on device") as full:
        launch(workdir=disk / "work").hello()
    assert "make room on its disk" in str(full.value)
    assert list((disk / "work/agent").iterdir()) == []
