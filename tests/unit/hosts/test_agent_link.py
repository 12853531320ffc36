"""The link to an agent over a stream in this process: answers, failures, and what the log shows of them."""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import Future

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError, LostError
from benchkit.hosts import agent_link
from benchkit.hosts.agent_link import AgentLink
from tests.support.hosts.fake_link import HOST, NO_ANSWER, FakeStream, ScriptedAgent

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
    lost = f"{HOST}: link lost: no answer from the agent: waited 0 s; unanswered: ProcessTable.members"
    assert lost in caplog.messages
    with pytest.raises(LostError):
        link.call(ProcessTable.members, 1)
    link.close(CLOSE_S)


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
    assert [message for message in caplog.messages if "not restored: [\"a.b is '2'" in message]


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
