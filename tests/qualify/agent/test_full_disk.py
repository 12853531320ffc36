"""A full disk under the work directory: nothing is left running or half written, and the message names the disk."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.records import PARTIAL_S, Records
from benchkit.agent.workdir import Workdir
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
    return agent.request(ops.StartProcess(command=ops.CommandSpec(argv=["sleep", MARK])))


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
    assert agent.request(ops.ListTrees()) == []
    filler.unlink()
    process = start(agent)
    deadline = time.monotonic() + 60
    while (
        not sleepers() and time.monotonic() < deadline
    ):  # it has the command line of `sleep` once it has been executed
        time.sleep(0.01)
    assert sleepers() == [str(process.pid)]
    agent.request(ops.StopProcesses(ids=[process.id], signum=15, grace_s=5))
    assert sleepers() == []


def test_no_inodes_are_reported_as_such(launch: Launch, disk: Path) -> None:
    agent = launch(workdir=disk / "work")
    agent.hello()  # its work directory is complete
    for number in range(os.statvfs(disk).f_favail):
        (disk / f"file-{number}").touch()
    with pytest.raises(HostStateError, match="and 0 of 200 inodes"):
        start(agent)
    assert (sleepers(), records_folder(agent)) == ([], [])


def test_programs_are_found_and_the_disk_is_named(launch: Launch, disk: Path) -> None:
    agent = launch(workdir=disk / "work")
    wanted = ops.GatherFacts({"python": ["python3", "--version"]}, [])
    assert agent.request(wanted).full_disk is None
    fill(disk)
    found = launch(workdir=disk / "work").request(wanted)
    assert found.facts["tools"]["python"]["text"].startswith("Python 3")
    assert (found.full_disk or "").startswith("0.0 of 4.2 MB are free")
    assert records_folder(agent) == []


def test_a_process_that_ends_on_a_full_disk_says_so_also_when_others_have_freed_it_since(
    launch: Launch, disk: Path
) -> None:
    workdir = disk / "work"
    agent = launch(workdir=workdir)
    agent.hello()
    # The disk is filled once the agent has recorded the pid of the third process, for which there must be room.
    recorded = f'grep -qs "\\"pid\\": $(cat {disk}/third)[,}}]" {workdir}/records/*'
    wait = f"until [ -s {disk}/third ] && {recorded}; do sleep 0.02; done"
    started = f"until [ -s {disk}/second ]; do sleep 0.02; done"  # both may start at once on a busy machine
    until_ended = f"{started}; while kill -0 $(cat {disk}/second); do sleep 0.01; done"
    scripts = (
        "true",
        f"echo $$ > {disk}/second; {wait}; cat /dev/zero > {disk}/filler",
        f"echo $$ > {disk}/third; {until_ended}; rm {disk}/filler",
    )
    now_ns = time.monotonic_ns()
    starts = [
        ops.StartProcess(ops.CommandSpec(["sh", "-c", script]), at_ns=now_ns + number * 500_000_000)
        for number, script in enumerate(scripts)
    ]
    limit_ns = now_ns + 60_000_000_000
    timetable = ops.RunTimetable([ops.ScheduledStart("load", each, limit_ns, grace_s=0.1) for each in starts])
    ended = [each.process.ended for each in agent.request(timetable, timeout_s=60)]
    assert [each and each.exit_code for each in ended] == [0, 1, 0]
    before, full, after = (each and each.full_disk for each in ended)
    assert (before, after) == (None, None)
    assert (full or "").startswith("No space left on device: 0.0 of 4.2 MB are free, and")


@pytest.mark.parametrize(
    "change",
    [
        ops.MakeTemporaryFolder("trials/t1"),
        ops.CreateCgroup("full", 0.5),
        ops.ExpectCleanup(["true"], {}, 5, "a cleanup"),
        ops.WriteTemporaryFile("secret", 0o600, body=b"word"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_nothing_is_changed_that_cannot_be_recorded(launch: Launch, disk: Path, change: ops.Operation[object]) -> None:
    agent = launch(workdir=disk / "work")
    agent.hello()
    if isinstance(change, ops.CreateCgroup) and not agent.request(ops.GatherFacts({}, [])).facts["cpu_groups"]:
        pytest.skip("control groups with a CPU quota cannot be created here")
    fill(disk)
    with pytest.raises(HostStateError, match="is full"):
        agent.request(change)
    assert records_folder(agent) == []
    assert not (disk / "work/trials").exists()
    assert not (disk / "work/secret").exists()


def test_a_setting_that_cannot_be_recorded_stays(launch: Launch, disk: Path) -> None:
    key = "net.ipv4.tcp_fin_timeout"
    path = Path("/proc/sys", key.replace(".", "/"))
    with subprocess.Popen(["unshare", "--net", "sleep", "300"]) as keeper:
        while Path(f"/proc/{keeper.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(0.001)
        inside = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        agent = launch(prefix=inside, workdir=disk / "work")
        agent.hello()
        fill(disk)
        with pytest.raises(HostStateError, match="is full"):
            agent.request(ops.WriteSysctls(values={key: "31"}))
        value = subprocess.run([*inside, "cat", str(path)], capture_output=True, text=True, check=True).stdout
        keeper.kill()
    assert value.strip() == "60"


def test_an_agent_that_cannot_be_stored_leaves_nothing(launch: Launch, disk: Path) -> None:
    (disk / "work").mkdir(mode=0o700)
    (disk / "work/agent").mkdir(mode=0o700)
    fill(disk, free_pages=1)
    with pytest.raises(HostError, match=f"cannot use the work directory {disk}/work: No space left on device") as full:
        launch(workdir=disk / "work").hello()
    assert "make room on its disk" in str(full.value)
    assert list((disk / "work/agent").iterdir()) == []


def test_partial_records_of_killed_writers_are_removed(tmp_path: Path) -> None:
    records = Records(Workdir(str(tmp_path / "work")))
    folder = records.note("folder", {"path": "x"}).parent
    old, new = folder / ".1.json.1.1", folder / ".2.json.1.1"
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 2 * PARTIAL_S,) * 2)
    records.remove_partial()
    assert (old.exists(), new.exists()) == (False, True)
