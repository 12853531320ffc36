"""The link to an agent over a stream in this process: answers, failures, and what the log shows of them."""

from __future__ import annotations

import logging
import re

import pytest

from benchkit.errors import LostError
from benchkit.hosts import agent_link
from benchkit.hosts.agent_link import AgentLink, RefusedError, Reply
from tests.hosts.fake_link import HOST, FakeStream, ScriptedAgent, refusal

SECRET = "token-of-a-user"  # noqa: S105 - must not be logged


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "benchkit.hosts")


def link_to(agent: ScriptedAgent, *, exit_code: int = 0, stderr: str = "") -> AgentLink:
    stream = FakeStream(agent, exit_code, stderr)
    return AgentLink(HOST, stream, stream.receive)


def test_each_request_is_logged_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(ScriptedAgent({"run": Reply({}, SECRET.encode())}))
    link.request("run", {"command": {"argv": ["login", SECRET], "env": {"TOKEN": SECRET}}}, SECRET.encode())
    link.close(1)
    size = len(SECRET)
    assert f"{HOST}: request 1 run: started, body of {size} bytes" in caplog.messages
    (answered,) = [message for message in caplog.messages if "run: answered" in message]
    assert re.fullmatch(rf"{HOST}: request 1 run: answered after \d+\.\d{{6}} s, body of {size} bytes", answered)
    assert SECRET not in caplog.text


def test_a_request_that_hangs_is_logged_as_started_and_as_unanswered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_link, "ANSWER_TIMEOUT_S", 0.1)
    link = link_to(ScriptedAgent({"facts": None}))
    with pytest.raises(LostError, match=f"{HOST}: no answer from the agent: waited"):
        link.request("facts", {})
    assert f"{HOST}: request 1 facts: started, body of 0 bytes" in caplog.messages
    assert not [message for message in caplog.messages if "facts: answered" in message]
    (unanswered,) = [message for message in caplog.messages if "requests without an answer" in message]
    assert re.search(r"1 facts after \d+\.\d{3} s$", unanswered)
    assert f"{HOST}: link lost: no answer from the agent: waited 0 s" in caplog.messages
    with pytest.raises(LostError):
        link.request("facts", {})
    link.close(1)


def test_a_refusal_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(ScriptedAgent({"mkdir": refusal("bad-path", "'..' is not below the work directory")}))
    with pytest.raises(RefusedError, match="not below"):
        link.request("mkdir", {"path": ".."})
    link.close(1)
    assert [message for message in caplog.messages if "mkdir: refused after" in message and "bad-path" in message]


def test_an_agent_that_ends_fails_all_requests() -> None:
    agent = ScriptedAgent({"wait": None, "stop": LostError("it ends", where=HOST)})
    link = link_to(agent, exit_code=1, stderr="killed")
    waiting = [link.submit("wait", {"id": number}) for number in range(3)]
    link.submit("stop", {})
    for future in waiting:
        with pytest.raises(LostError, match=f"{HOST}: the agent ended: killed"):
            link.result(future, 1)
    assert link.is_dead
    assert link.close(1) == ["shutdown not confirmed: killed"]
    assert not link.shutdown_confirmed


def test_closing_returns_what_the_agent_could_not_restore(caplog: pytest.LogCaptureFixture) -> None:
    link = link_to(ScriptedAgent({}), stderr="noise\nbenchkit agent: a.b is '2' and should be '1'\n")
    assert link.close(1) == ["a.b is '2' and should be '1'"]
    assert link.shutdown_confirmed
    assert [message for message in caplog.messages if "not restored: a.b is '2'" in message]
