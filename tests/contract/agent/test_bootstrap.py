from __future__ import annotations

import hashlib
import io
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent.server import Agent
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink, Stream
from benchkit.hosts.bootstrap import agent_file, command, start

Open = Callable[..., Stream]


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    return tmp_path / "workdir"


def test_the_agent_is_one_file_of_the_same_bytes_each_time() -> None:
    first = agent_file()
    agent_file.cache_clear()
    assert agent_file() == first
    assert hashlib.sha256(first.content).hexdigest() == first.sha256
    names = zipfile.ZipFile(io.BytesIO(first.content)).namelist()
    assert {"benchkit/__init__.py", "benchkit/agent/server.py"} <= set(names)
    assert all(re.fullmatch(r"benchkit/(agent/)?\w+\.py", name) for name in names)


def test_the_line_has_nothing_that_a_shell_would_touch() -> None:
    line = command(agent_file(), "~/.benchkit")
    assert line.startswith("exec python3 -I -S -c '")
    quoted = line.removeprefix("exec python3 -I -S -c '").removesuffix("'")
    assert not set(quoted) & set("'!\n$`"), "csh and fish read quotes in their own way"
    assert re.sub(r'\\[n"]', "", quoted).count("\\") == 0


SHELLS = ["sh", "bash", "zsh", "tcsh", "fish"]


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_it_starts_from_any_login_shell(open_stream: Open, workdir: Path, shell: str) -> None:
    stream = open_stream([shell, "-c", command(agent_file(), str(workdir))])
    link = AgentLink("here", stream, start(stream, "here", agent_file()))
    assert link.hello().workdir == str(workdir.resolve())
    assert link.close(60) == []


class Counting:
    """A stream that counts the bytes sent to it."""

    def __init__(self, stream: Stream) -> None:
        self.sent = 0
        self._send = stream.send
        stream.send = self  # type: ignore[method-assign] # a spy on the instance

    def __call__(self, content: bytes) -> None:
        self.sent += len(content)
        self._send(content)


def test_its_bytes_are_sent_once_and_again_where_they_are_damaged(open_stream: Open, workdir: Path) -> None:
    sent = []
    for times in range(3):
        if times == 2:
            (file,) = (workdir / "agent").iterdir()
            file.write_bytes(file.read_bytes()[:-1])
        stream = open_stream(["/bin/sh", "-c", command(agent_file(), str(workdir))])
        counting = Counting(stream)
        start(stream, "here", agent_file())
        sent.append(counting.sent)
        stream.end_input()
        assert stream.exit_code(60) == 0
    assert sent == [len(agent_file().content), 0, len(agent_file().content)]


def test_what_start_up_files_print_is_skipped(open_stream: Open, workdir: Path) -> None:
    noise = "echo welcome; printf 'no line end'; "
    stream = open_stream(["/bin/sh", "-c", noise + command(agent_file(), str(workdir))])
    link = AgentLink("here", stream, start(stream, "here", agent_file()))
    assert link.call(Agent.read_clocks).wall_ns > 0
    link.close(60)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("PATH=/nonexistent; exec python3", "here: no Python 3.8 or newer: .*not found"),
        ("exit 5", "here: the agent does not start: exit code 5"),
        ("kill -KILL $$", "here: the agent does not start: the connection broke"),
    ],
)
def test_what_prevents_the_start_is_named(open_stream: Open, script: str, message: str) -> None:
    stream = open_stream(["/bin/sh", "-c", script])
    with pytest.raises(HostError, match=message):
        start(stream, "here", agent_file())


def test_a_work_directory_that_others_may_enter_is_refused(open_stream: Open, workdir: Path) -> None:
    workdir.mkdir()
    workdir.chmod(0o755)
    stream = open_stream(["/bin/sh", "-c", command(agent_file(), str(workdir))])
    with pytest.raises(HostError, match=re.escape(str(workdir))):
        start(stream, "here", agent_file())
