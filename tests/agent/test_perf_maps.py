from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.hosts.agent_link import AgentLink, RefusedError

pytestmark = pytest.mark.system

UNUSED_PID = (1 << 22) + 7
"""Pid beyond the largest of a kernel (proc(5), pid_max)."""


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
        packed = agent.request("compress", {"path": name}).fields
        assert packed["path"] == str(workdir / f"{name}.gz")
        contents.append(Path(packed["path"]).read_bytes())
        assert packed["size"] == len(contents[-1]) < len(text) / 100
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]) == text


def test_files_outside_of_the_work_directory_are_not_compressed(agent: AgentLink) -> None:
    with pytest.raises(RefusedError):
        agent.request("compress", {"path": "/etc/hostname"})


def test_maps_for_perf_are_removed_by_pid(agent: AgentLink, left_behind: Path) -> None:
    dropped = agent.request("remove_perf_maps", {"pids": [UNUSED_PID, UNUSED_PID + 1]}).fields["removed"]
    assert dropped == [str(left_behind)]
    assert not left_behind.exists()
    assert agent.request("remove_perf_maps", {"pids": [UNUSED_PID]}).fields["removed"] == []


def test_maps_that_were_expected_go_with_the_agent(
    launch: Callable[..., AgentLink], left_behind: Path, has_ended: Callable[[int], bool]
) -> None:
    link = launch()
    link.request("expect_perf_maps", {"pids": [UNUSED_PID]})
    assert [record["kind"] for record in link.request("records", {}).fields["records"]] == ["perf-maps"]
    pid = link.hello().fields["pid"]
    assert link.close(10) == []
    assert has_ended(pid)
    assert not left_behind.exists()


def test_a_map_that_was_removed_is_expected_no_more(agent: AgentLink, left_behind: Path) -> None:
    agent.request("expect_perf_maps", {"pids": [UNUSED_PID]})
    agent.request("remove_perf_maps", {"pids": [UNUSED_PID]})
    assert not left_behind.exists()
    assert agent.request("records", {}).fields["records"] == []


def test_a_file_that_is_no_map_of_this_user_stays(agent: AgentLink, left_behind: Path) -> None:
    target = left_behind.with_suffix(".kept")
    left_behind.rename(target)
    left_behind.symlink_to(target)
    try:
        with pytest.raises(RefusedError, match=f"no map for perf at {left_behind}"):
            agent.request("expect_perf_maps", {"pids": [UNUSED_PID]})
        assert agent.request("remove_perf_maps", {"pids": [UNUSED_PID]}).fields["removed"] == []
        assert target.exists()
        assert left_behind.is_symlink()
        assert agent.request("records", {}).fields["records"] == []
    finally:
        target.unlink()


def test_a_link_at_the_path_of_a_map_does_not_keep_the_record(
    launch: Callable[..., AgentLink], left_behind: Path, has_ended: Callable[[int], bool]
) -> None:
    link = launch()
    link.request("expect_perf_maps", {"pids": [UNUSED_PID]})
    left_behind.unlink()
    left_behind.symlink_to("/etc/hostname")
    pid = link.hello().fields["pid"]
    assert link.close(10) == []
    assert has_ended(pid)
    assert left_behind.is_symlink()
