from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.hosts.agent_link import AgentLink, RefusedError

UNUSED_PID = (1 << 22) + 7
"""Pid beyond the largest of a kernel (proc(5), pid_max)."""


FOLDER = "stack/node/perf-maps"
"""Folder in which the process was started that wrote the map."""


@pytest.fixture
def left_behind() -> Iterator[Path]:
    """A map as V8 leaves it for perf."""
    path = Path(f"/tmp/perf-{UNUSED_PID}.map")  # noqa: S108 - where perf looks for it
    path.write_text("7f00 10 LazyCompile:~work\n")
    yield path
    path.unlink(missing_ok=True)


def test_a_compressed_file_has_the_same_bytes_for_the_same_content(agent: AgentLink, workdir: Path) -> None:
    text = b"nginx  907  1670.529439:   10101010 cpu-clock:\n" * 10_000
    contents = []
    for name in ("one.txt", "other.txt"):
        (workdir / name).write_bytes(text)
        packed = agent.request(ops.CompressFile(name))
        assert packed == str(workdir / f"{name}.gz")
        contents.append(Path(packed).read_bytes())
        assert len(contents[-1]) < len(text) / 100
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]) == text


def test_files_outside_of_the_work_directory_are_not_compressed(agent: AgentLink) -> None:
    with pytest.raises(RefusedError):
        agent.request(ops.CompressFile(path="/etc/hostname"))


@pytest.fixture
def expect() -> Callable[[AgentLink], Path]:
    """Expect the map of a process that ends before anybody asks for its id, with V8's log; give their folder."""

    def start(link: AgentLink) -> Path:
        link.request(ops.ExpectPerfMaps(folder=FOLDER))
        folder = Path(link.hello().workdir) / FOLDER
        for name in (str(UNUSED_PID), str(UNUSED_PID + 1), f"isolate-0x1-{UNUSED_PID}-v8.log"):
            (folder / name).touch()
        return folder

    return start


def test_maps_of_ended_processes_are_removed_with_their_folder_and_record(
    agent: AgentLink, left_behind: Path, expect: Callable[[AgentLink], Path]
) -> None:
    folder = expect(agent)
    assert agent.request(ops.RemovePerfMaps(folder=FOLDER)) == [str(left_behind)]
    assert (left_behind.exists(), folder.exists()) == (False, False)
    assert agent.request(ops.ListRecords()).records == []
    assert agent.request(ops.RemovePerfMaps(folder=FOLDER)) == []


def test_maps_that_were_expected_go_with_the_agent(
    launch: Callable[..., AgentLink],
    left_behind: Path,
    expect: Callable[[AgentLink], Path],
    has_ended: Callable[[int], bool],
) -> None:
    link = launch()
    folder = expect(link)
    assert [record["kind"] for record in link.request(ops.ListRecords()).records] == ["perf-maps"]
    pid = link.hello().pid
    assert link.close(10) == []
    assert has_ended(pid)
    assert (left_behind.exists(), folder.exists()) == (False, False)


def test_a_file_that_is_no_map_of_this_user_stays(
    agent: AgentLink, left_behind: Path, expect: Callable[[AgentLink], Path]
) -> None:
    expect(agent)
    target = left_behind.with_suffix(".kept")
    left_behind.rename(target)
    left_behind.symlink_to(target)
    try:
        with pytest.raises(RefusedError, match=f"no map for perf at {left_behind}"):
            agent.request(ops.RequirePerfMaps(pids=[UNUSED_PID]))
        assert agent.request(ops.RemovePerfMaps(folder=FOLDER)) == []
        assert target.exists()
        assert left_behind.is_symlink()
        assert agent.request(ops.ListRecords()).records == []
    finally:
        target.unlink()


def test_a_link_at_the_path_of_a_map_does_not_keep_the_record(
    launch: Callable[..., AgentLink],
    left_behind: Path,
    expect: Callable[[AgentLink], Path],
    has_ended: Callable[[int], bool],
) -> None:
    link = launch()
    expect(link)
    left_behind.unlink()
    left_behind.symlink_to("/etc/hostname")
    pid = link.hello().pid
    assert link.close(10) == []
    assert has_ended(pid)
    assert left_behind.is_symlink()
