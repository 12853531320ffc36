"""An agent on the host that was damaged since it was stored."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.hosts.agent_link import Stream
from benchkit.hosts.bootstrap import agent_file, command, start
from tests.contract.agent.test_bootstrap import Counting, stored_agent

Open = Callable[..., Stream]


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    return tmp_path / "workdir"


def append(content: bytes) -> bytes:
    return content + b"!"


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(_: bytes) -> bytes:
    return b""


def replace(_: bytes) -> bytes:
    return b"print('owned')"


@pytest.mark.parametrize("damage", [append, cut, empty, replace])
def test_a_damaged_agent_on_the_host_is_replaced(
    open_stream: Open, workdir: Path, damage: Callable[[bytes], bytes]
) -> None:
    for _ in range(2):
        stream = open_stream(["/bin/sh", "-c", command(agent_file(), str(workdir))])
        counting = Counting(stream)
        start(stream, "here", agent_file())
        assert counting.sent == len(agent_file().content)
        stream.end_input()
        assert stream.exit_code(60) == 0
        stored = stored_agent(workdir)
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        stored.write_bytes(damage(stored.read_bytes()))
