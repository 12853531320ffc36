"""The link to an agent over a stream in this process: answers, failures, and what the log shows of them."""

from __future__ import annotations

import logging
import re
import threading
import time
from concurrent.futures import Future

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.agent.server import Agent
from benchkit.errors import HostError, LostError
from benchkit.hosts import agent_link
from benchkit.hosts.agent_link import AgentLink, RefusedError
from tests.support.hosts.fake_link import HOST, NO_ANSWER, FakeStream, ScriptedAgent, refusal
from tests.support.waiting import wait_until

SECRET = "token-of-a-user"  # noqa: S105 - must not be logged
ENDED = ops.ExitStatus(at_ns=7, exit_code=0, signal=None, user_s=0.1, system_s=0.2)
CLOSE_S = 20.0
"""Time to close a link: more than a busy machine keeps a thread waiting. No link here takes it."""


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "benchkit.hosts")


def link_to(agent: ScriptedAgent, *, exit_code: int = 0, stderr: str = "") -> AgentLink:
    stream = FakeStream(agent, exit_code, stderr)
    return AgentLink(HOST, stream, stream.receive)


def upload(link: AgentLink) -> Future[bool]:
    """Submit a chunk of a file."""
    return link.submit(FileStore.upload, "t", "0" * 64, 0o644, 100, offset=0, body=bytes(10))


def test_each_request_is_logged_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(
        ScriptedAgent({ProcessTable.run: ops.Completed(ENDED, timed_out=False, stdout_size=0, body=SECRET.encode())})
    )
    link.call(ProcessTable.run, ops.ProcessSpec(["login", SECRET], {"TOKEN": SECRET}), 1, 99, SECRET.encode())
    link.close(CLOSE_S)
    size = len(SECRET)
    assert f"{HOST}: request 1 ProcessTable.run: started, body of {size} bytes" in caplog.messages
    (answered,) = [message for message in caplog.messages if "ProcessTable.run: answered" in message]
    assert re.fullmatch(
        rf"{HOST}: request 1 ProcessTable.run: answered after \d+\.\d{{6}} s, body of {size} bytes", answered
    )
    assert SECRET not in caplog.text


def test_a_request_that_hangs_is_logged_as_started_and_as_unanswered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_link, "ANSWER_TIMEOUT_S", 0.1)
    link = link_to(ScriptedAgent({ProcessTable.members: NO_ANSWER}))
    with pytest.raises(LostError, match=f"{HOST}: no answer from the agent: waited"):
        link.call(ProcessTable.members, 1)
    assert f"{HOST}: request 1 ProcessTable.members: started, body of 0 bytes" in caplog.messages
    assert not [message for message in caplog.messages if "ProcessTable.members: answered" in message]
    (unanswered,) = [message for message in caplog.messages if "requests without an answer" in message]
    assert re.search(r"1 ProcessTable.members after \d+\.\d{3} s$", unanswered)
    assert f"{HOST}: link lost: no answer from the agent: waited 0 s" in caplog.messages
    with pytest.raises(LostError):
        link.call(ProcessTable.members, 1)
    link.close(CLOSE_S)


def test_a_refusal_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(ScriptedAgent({FileStore.mkdir: refusal("bad-path", "'..' is not below the work directory")}))
    with pytest.raises(RefusedError, match="not below"):
        link.call(FileStore.mkdir, "..")
    link.close(CLOSE_S)
    assert [
        message for message in caplog.messages if "FileStore.mkdir: refused after" in message and "bad-path" in message
    ]


def test_an_agent_that_ends_fails_all_requests() -> None:
    agent = ScriptedAgent({ProcessTable.wait: NO_ANSWER, ProcessTable.stop: LostError("it ends", where=HOST)})
    link = link_to(agent, exit_code=1, stderr="killed")
    waiting = [link.submit(ProcessTable.wait, number, 1) for number in range(3)]
    link.submit(ProcessTable.stop, [], 15, 1)
    for future in waiting:
        with pytest.raises(LostError, match=f"{HOST}: the agent ended: killed"):
            link.result(future, 1)
    assert link.close(CLOSE_S) == ["shutdown not confirmed: killed"]
    assert not link.shutdown_confirmed


def test_an_answer_of_another_form_fails_its_request_alone() -> None:
    link = link_to(ScriptedAgent({ProcessTable.members: [{"no": "such field"}], FileStore.list_folder: {"a": 1}}))
    with pytest.raises(HostError, match=f"{HOST}: the answer to ProcessTable.members cannot be read"):
        link.call(ProcessTable.members, 1)
    assert link.call(FileStore.list_folder, "x") == {"a": 1}
    assert link.close(CLOSE_S) == []


def test_closing_returns_what_the_agent_could_not_restore(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(ScriptedAgent({}), stderr="noise\nbenchkit agent: a.b is '2' and should be '1'\n")
    assert link.close(CLOSE_S) == ["a.b is '2' and should be '1'"]
    assert link.shutdown_confirmed
    assert [message for message in caplog.messages if "not restored: a.b is '2'" in message]


class StuckStream(FakeStream):
    """A stream whose host accepts nothing after the first request, until it is closed."""

    def __init__(self, agent: ScriptedAgent) -> None:
        super().__init__(agent)
        self.closed = threading.Event()

    def send(self, content: bytes) -> None:
        if self._agent.requests:
            assert self.closed.wait(30)
            raise OSError("closed")
        super().send(content)

    def close(self) -> None:
        self.closed.set()
        super().close()


def test_a_link_is_cut_where_the_host_does_not_accept_the_frame_that_is_being_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_link, "FRAME_TIMEOUT_S", 0.1)
    stream = StuckStream(ScriptedAgent({FileStore.upload: False}))
    link = AgentLink(HOST, stream, stream.receive)
    uploads = [upload(link) for _ in range(3)]
    assert link.result(uploads[0], 1) is False
    (failure,) = link.close(20)
    assert "the link was closed, and its watchdog restores it" in failure
    assert stream.closed.is_set()
    for future in uploads[1:]:
        with pytest.raises(LostError):
            link.result(future, 0)


def test_the_goodbye_does_not_wait_for_frames_that_were_not_sent_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the frames behind the one that is being sent: nobody waits for their answers."""
    monkeypatch.setattr(agent_link, "FRAME_TIMEOUT_S", CLOSE_S)
    received: list[str] = []
    gate = threading.Event()

    class SlowStream(FakeStream):
        def send(self, content: bytes) -> None:
            received.append(content.partition(b'"op":"')[2].partition(b'"')[0].decode())
            gate.wait(30)
            super().send(content)

    stream = SlowStream(ScriptedAgent({FileStore.upload: False}))
    link = AgentLink(HOST, stream, stream.receive)
    for _ in range(5):
        upload(link)
    wait_until(lambda: bool(received))

    def accept_once_the_goodbye_waits() -> None:
        wait_until(lambda: link._sender._last is not None)
        gate.set()

    host = threading.Thread(target=accept_once_the_goodbye_waits)
    host.start()
    assert link.close(CLOSE_S) == []
    host.join()
    assert received == ["FileStore.upload", "Agent.goodbye"]


def test_patience_counts_from_the_last_piece_of_a_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait behind the uploads of a slow link as long as they proceed; a hanging host still fails the request."""
    # All pieces together take longer than the patience, of which each takes a twentieth on an idle machine.
    pieces, piece_s, patience_s = 25, 0.1, 2.0
    assert pieces * piece_s > patience_s
    monkeypatch.setattr(agent_link, "ANSWER_TIMEOUT_S", patience_s)

    def arrive(_: object) -> bool:
        time.sleep(piece_s)
        return False

    link = link_to(
        ScriptedAgent({FileStore.upload: arrive, FileStore.list_folder: {"a": 1}, Agent.read_clocks: NO_ANSWER})
    )
    for _ in range(pieces):
        upload(link)
    assert link.call(FileStore.list_folder, "x") == {"a": 1}
    monkeypatch.setattr(agent_link, "ANSWER_TIMEOUT_S", 0.1)
    with pytest.raises(LostError, match="no answer from the agent"):
        link.call(Agent.read_clocks)
    link.close(CLOSE_S)


def test_no_frame_is_sent_by_the_thread_that_signals_interrupt() -> None:
    """Send requests and the goodbye outside of the main thread: an interruption there would tear a frame."""
    senders: list[threading.Thread] = []

    class WatchedStream(FakeStream):
        def send(self, content: bytes) -> None:
            senders.append(threading.current_thread())
            super().send(content)

    stream = WatchedStream(ScriptedAgent({FileStore.upload: False}))
    link = AgentLink(HOST, stream, stream.receive)
    link.result(upload(link), 1)
    assert link.close(CLOSE_S) == []
    assert len(senders) == 2
    assert threading.main_thread() not in senders


class BusyHost(FakeStream):
    """A stream to a host that is slow to end its agent: silence, then the end of the output, then the exit code."""

    SILENCES, EXIT_S = 3, 10.0

    def __init__(self, agent: ScriptedAgent) -> None:
        super().__init__(agent)
        self._silences = 0
        self._has_ended = False

    def end_input(self) -> None:
        """Begin to end the agent."""
        self._silences = self.SILENCES

    def receive(self, size: int) -> bytes:
        """End the output after a few timeouts."""
        try:
            return super().receive(size)
        except TimeoutError:
            if self._silences == 0:
                raise
            self._silences -= 1
            if self._silences == 0:
                super().end_input()
            raise

    def exit_code(self, timeout_s: float) -> int | None:
        """Return the exit code to those who wait long enough for it, without letting them wait."""
        self._has_ended = self._has_ended or timeout_s >= self.EXIT_S
        return 0 if self._has_ended else None


def test_closing_waits_for_the_agent_of_a_busy_host_as_long_as_it_was_told_to() -> None:
    stream = BusyHost(ScriptedAgent({}))
    link = AgentLink(HOST, stream, stream.receive)
    link.call(Agent.read_clocks)
    assert link.close(2 * BusyHost.EXIT_S) == []
    assert link.shutdown_confirmed


def test_an_end_without_an_exit_code_is_not_confirmed() -> None:
    stream = BusyHost(ScriptedAgent({}))
    link = AgentLink(HOST, stream, stream.receive)
    assert link.close(BusyHost.EXIT_S / 2) == ["shutdown not confirmed: the agent ended, without an exit code"]
    assert not link.shutdown_confirmed


def test_closing_gives_up_a_host_that_does_not_answer_the_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "HEARTBEAT_TIMEOUT_S", 0.1)

    class SilentStream(FakeStream):
        def send(self, content: bytes) -> None:
            del content

        def end_input(self) -> None:
            pass

        def exit_code(self, timeout_s: float) -> int | None:
            assert timeout_s <= agent_link.LAST_OUTPUT_S, "nothing is known to have ended"
            return None

    stream = SilentStream(ScriptedAgent({}))
    link = AgentLink(HOST, stream, stream.receive)
    (failure,) = link.close(3600)
    assert failure == "shutdown not confirmed: no heartbeat from the host, without an exit code"
