"""Agents on this machine over pipes: everything except SSH is as on a host.

The controller's link is tested here too.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.bootstrap import agent_file, command, start


class PipeStream:
    """A program on this machine at the far end of a link."""

    def __init__(self, argv: Sequence[str], stderr: Path, receive_timeout_s: float = 15) -> None:
        self._stderr = stderr
        self._silence_s = receive_timeout_s
        with stderr.open("wb") as file:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def send(self, content: bytes) -> None:
        self._stdin.write(content)
        self._stdin.flush()

    def receive(self, size: int) -> bytes:
        try:
            if not select.select([self._stdout], [], [], self._silence_s)[0]:
                raise TimeoutError
            return os.read(self._stdout.fileno(), size)
        except ValueError:  # it was closed meanwhile
            return b""

    def end_input(self) -> None:
        self._stdin.close()

    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace").strip()

    def exit_code(self, timeout_s: float) -> int | None:
        try:
            return max(-1, self.process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()


def oldest_python() -> str | None:
    """Return a Python 3.8, the oldest that agents support, where this machine has one."""
    found = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python3.8"))
    return shutil.which("python3.8", path="/usr/bin:/usr/local/bin") or (str(found[-1]) if found else None)


PYTHONS = [sys.executable, *filter(None, [oldest_python()])]


@pytest.fixture
def open_stream(tmp_path: Path) -> Iterator[Callable[..., PipeStream]]:
    """Start programs of this machine at the far end of a link: `open_stream(argv, receive_timeout_s=…)`."""
    streams: list[PipeStream] = []

    def open_one(argv: Sequence[str], receive_timeout_s: float = 15) -> PipeStream:
        streams.append(PipeStream(argv, tmp_path / f"stderr-{len(streams)}", receive_timeout_s))
        return streams[-1]

    yield open_one
    for stream in streams:
        stream.close()


@pytest.fixture
def inside() -> Iterator[list[str]]:
    """Command prefix for a network namespace as host: its lock and its settings are its own."""
    with subprocess.Popen(["unshare", "--net", "sleep", "300"]) as keeper:
        while Path(f"/proc/{keeper.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(0.001)
        yield ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        keeper.kill()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., AgentLink]]:
    """Start agents: `launch(prefix=[…], workdir=…, python=…, lease_s=…, receive_timeout_s=…)`; close all at the end."""
    links: list[AgentLink] = []

    def start_agent(
        *,
        prefix: Sequence[str] = (),
        workdir: Path | None = None,
        python: str = sys.executable,
        lease_s: float = 60,
        receive_timeout_s: float = 15,
    ) -> AgentLink:
        line = command(agent_file(), str(workdir or tmp_path / "workdir"), lease_s)
        line = line.replace("exec python3 ", f"exec {python} ", 1)
        stream = PipeStream([*prefix, "/bin/sh", "-c", line], tmp_path / f"stderr{len(links)}", receive_timeout_s)
        try:
            links.append(AgentLink("here", stream, start(stream, "here", agent_file())))
        except HostError:
            stream.close()
            raise
        return links[-1]

    yield start_agent
    for link in links:
        link.close(10)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLink]:
    """An agent shared by the tests of a module."""
    folder = tmp_path_factory.mktemp("agent")
    line = command(agent_file(), str(folder / "workdir")).replace("exec python3 ", f"exec {sys.executable} ", 1)
    stream = PipeStream(["/bin/sh", "-c", line], folder / "stderr")
    link = AgentLink("here", stream, start(stream, "here", agent_file()))
    yield link
    assert link.close(60) == []
    assert stream.exit_code(0) == 0


@pytest.fixture
def workdir(agent: AgentLink) -> Path:
    """The work directory of the shared agent."""
    return Path(agent.hello().workdir)


@pytest.fixture
def has_ended() -> Callable[[int], bool]:
    """Return a function that waits for the end of a process: `has_ended(pid)`."""

    def ends_within(pid: int, within_s: float = 50) -> bool:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][:1]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state == "Z":
                return True
            time.sleep(0.01)
        return False

    return ends_within
