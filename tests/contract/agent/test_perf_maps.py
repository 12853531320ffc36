from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.profilers import remove_perf_maps, require_perf_maps

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


@pytest.fixture
def expect() -> Callable[[AgentLink], tuple[Host, PurePosixPath]]:
    """Expect the map of a process that ends before anybody asks for its id, with V8's log; give host and folder."""

    def start(link: AgentLink) -> tuple[Host, PurePosixPath]:
        host = Host(HostSpec(name="here", address="127.0.0.1", roles=()), link)
        folder = host.workdir / FOLDER
        host.call(Undo.expect_perf_maps, folder)
        for name in (str(UNUSED_PID), str(UNUSED_PID + 1), f"isolate-0x1-{UNUSED_PID}-v8.log"):
            (Path(folder) / name).touch()
        return host, folder

    return start


Expect = Callable[[AgentLink], tuple[Host, PurePosixPath]]


def test_maps_of_ended_processes_are_removed_with_their_folder_and_record(
    agent: AgentLink, left_behind: Path, expect: Expect
) -> None:
    host, folder = expect(agent)
    require_perf_maps(host, [UNUSED_PID])
    remove_perf_maps(host, folder)
    assert (left_behind.exists(), Path(folder).exists()) == (False, False)
    assert host.call(Undo.traces).records == []


def test_a_file_that_is_no_map_of_this_user_stays(agent: AgentLink, left_behind: Path, expect: Expect) -> None:
    host, folder = expect(agent)
    target = left_behind.with_suffix(".kept")
    left_behind.rename(target)
    left_behind.symlink_to(target)
    try:
        with pytest.raises(HostError, match=f"no map for perf at {left_behind}"):
            require_perf_maps(host, [UNUSED_PID])
        remove_perf_maps(host, folder)
        assert target.exists()
        assert left_behind.is_symlink()
        assert host.call(Undo.traces).records == []
    finally:
        target.unlink()
