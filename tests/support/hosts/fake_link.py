"""A scripted agent in this process: behind a link without a stream, or behind a stream for the real link."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from benchkit.agent.frames import FrameReader, pack
from benchkit.errors import LostError
from benchkit.hosts.agent_link import RefusedError, Reply

Fields = Mapping[str, Any]
Answer = Fields | Reply | RefusedError | LostError | None
"""Fields, fields with a body, an error, or None: no answer, the request hangs."""

HOST = "fake"
CLOCK = {"monotonic_ns": 1_000_000_000, "wall_ns": 2_000_000_000}


def refusal(kind: str, what: str, why: str | None = None) -> RefusedError:
    """Return the refusal of a request."""
    return RefusedError(kind, what, where=HOST, why=why)


@dataclass(frozen=True)
class Request:
    """A request as the agent received it."""

    op: str
    args: Fields
    body: bytes = b""


class ScriptedAgent:
    """Answers requests from a table, and records them."""

    def __init__(self, answers: Mapping[str, Answer | Callable[[Request], Answer]]) -> None:
        """Answer each operation with its entry of the table; a callable computes the answer from the request."""
        self.requests: list[Request] = []
        self._answers = {"clock": CLOCK, **answers}

    def answer(self, request: Request) -> Answer:
        """Record a request and return its answer."""
        self.requests.append(request)
        entry = self._answers[request.op]
        return entry(request) if callable(entry) else entry

    def args(self, op: str) -> list[Fields]:
        """Return the arguments of all requests of an operation."""
        return [request.args for request in self.requests if request.op == op]


class FakeLink:
    """A link to a scripted agent, without threads; waiting for a request that hangs raises LostError at once."""

    def __init__(
        self, answers: Mapping[str, Answer | Callable[[Request], Answer]], failures: list[str] | None = None
    ) -> None:
        """Answer from a table; `close` returns `failures`."""
        self.agent = ScriptedAgent(answers)
        self.last_seen_s = 0.0
        self.shutdown_confirmed = False
        self.is_dead = False
        self._failures = failures or []

    def submit(self, op: str, args: Fields, body: bytes = b"") -> Future[Reply]:
        """Answer a request."""
        if self.is_dead:
            raise LostError("the link is dead", where=HOST)
        future: Future[Reply] = Future()
        match self.agent.answer(Request(op, args, body)):
            case None:
                pass
            case LostError() as error:
                self.is_dead = True
                future.set_exception(error)
            case RefusedError() as error:
                future.set_exception(error)
            case Reply() as reply:
                future.set_result(reply)
            case fields:
                future.set_result(Reply(fields, b""))
        return future

    def result(self, future: Future[Reply], timeout_s: float) -> Reply:
        """Return the answer."""
        if not future.done():
            self.is_dead = True
            raise LostError("no answer from the agent", where=HOST, why=f"waited {timeout_s:g} s")
        return future.result()

    def request(self, op: str, args: Fields, body: bytes = b"", *, timeout_s: float = 0) -> Reply:
        """Answer a request and return the answer."""
        return self.result(self.submit(op, args, body), timeout_s)

    def close(self, timeout_s: float) -> list[str]:
        """End the agent; a dead link does not confirm its end."""
        del timeout_s
        self.shutdown_confirmed = not self.is_dead
        self.is_dead = True
        return (
            self._failures
            if self.shutdown_confirmed
            else ["shutdown not confirmed: the agent ended, without an exit code"]
        )


class FakeStream:
    """A stream to a scripted agent, in frames as the real link sends and reads them."""

    def __init__(self, agent: ScriptedAgent, exit_code: int = 0, stderr: str = "") -> None:
        """Connect; `exit_code` and `stderr` are those of the agent at its end."""
        self._agent = agent
        self._exit_code = exit_code
        self._stderr = stderr
        self._output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._output.put(pack({"id": 0, "ok": {"pid": 1, "watchdog": 2, "protocol": 0}}))

    def send(self, content: bytes) -> None:
        """Answer the request in a frame."""
        parts = iter((content, b""))
        frame = FrameReader(lambda _: next(parts)).next()
        assert frame is not None
        header, body = frame
        if header["op"] == "goodbye":
            self._output.put(pack({"id": header["id"], "ok": {}}))
            return
        match self._agent.answer(Request(header["op"], header["args"], body)):
            case None:
                return
            case RefusedError() as error:
                answer: dict[str, Fields] = {"error": {"kind": error.kind, "what": error.what, "why": error.why}}
            case LostError():
                self._output.put(b"")
                return
            case Reply(fields, body):
                self._output.put(pack({"id": header["id"], "ok": dict(fields)}, body))
                return
            case fields:
                answer = {"ok": fields}
        self._output.put(pack({"id": header["id"], **answer}))

    def receive(self, size: int) -> bytes:
        """Return the next frame; raise TimeoutError where there is none."""
        del size
        try:
            return self._output.get(timeout=0.05)
        except queue.Empty:
            raise TimeoutError from None

    def end_input(self) -> None:
        """End the agent."""
        self._output.put(b"")

    def stderr(self) -> str:
        """Return what the agent prints at its end."""
        return self._stderr

    def exit_code(self, timeout_s: float) -> int | None:
        """Return the exit code of the agent."""
        del timeout_s
        return self._exit_code

    def close(self) -> None:
        """End the output."""
        self._output.put(b"")
