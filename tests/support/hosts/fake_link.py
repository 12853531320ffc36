"""A scripted agent in this process, behind a stream for the real link."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any, TypeVar

from benchkit.agent import operations as ops
from benchkit.agent.frames import FrameReader, pack
from benchkit.errors import LostError
from benchkit.hosts.agent_link import AgentLink, RefusedError

HOST = "fake"

OperationT = TypeVar("OperationT", bound=ops.Operation[Any])

NO_ANSWER = object()
"""Entry of a script for a request that hangs."""

Script = Mapping[type[ops.Operation[Any]], object]
"""The answer to each operation: its result, an error, `NO_ANSWER`, or a function of the operation that returns one."""


def refusal(kind: str, what: str, why: str | None = None) -> RefusedError:
    """Return the refusal of a request."""
    return RefusedError(kind, what, where=HOST, why=why)


class ScriptedAgent:
    """Answers requests from a script, and records them."""

    def __init__(self, script: Script) -> None:
        self.requests: list[ops.Operation[Any]] = []
        self._script: Script = {ops.ReadClocks: ops.Clocks(1_000_000_000, 2_000_000_000), **script}

    def answer(self, operation: ops.Operation[Any]) -> object:
        """Record a request and return its answer."""
        self.requests.append(operation)
        entry = self._script[type(operation)]
        return entry(operation) if callable(entry) else entry

    def requested(self, kind: type[OperationT]) -> list[OperationT]:
        """Return all requests of an operation."""
        return [request for request in self.requests if isinstance(request, kind)]


class FakeStream:
    """A stream to a scripted agent, in frames as the real link sends and reads them."""

    def __init__(self, agent: ScriptedAgent, exit_code: int = 0, stderr: str = "") -> None:
        """Connect; `exit_code` and `stderr` are the agent's at its end."""
        self._agent = agent
        self._exit_code = exit_code
        self._stderr = stderr
        self._output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._output.put(pack({"id": 0, "ok": ops.Hello(1, 2, "/work")}))

    def send(self, content: bytes) -> None:
        """Answer the request in a frame."""
        parts = iter((content, b""))
        frame = FrameReader(lambda _: next(parts)).next()
        assert frame is not None
        header, body = frame
        operation = ops.decode_operation(header["op"], header["args"], body)
        if isinstance(operation, ops.Goodbye):
            self._output.put(pack({"id": header["id"], "ok": None}))
            return
        answer = self._agent.answer(operation)
        if answer is NO_ANSWER:
            return
        if isinstance(answer, LostError):
            self._output.put(b"")
        elif isinstance(answer, RefusedError):
            error = {"kind": answer.kind, "what": answer.what, "why": answer.why}
            self._output.put(pack({"id": header["id"], "error": error}))
        else:
            fields, body = ops.encode(answer)
            self._output.put(pack({"id": header["id"], "ok": fields}, body))

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


class FakeLink(AgentLink):
    """A link to a scripted agent."""

    def __init__(self, script: Script) -> None:
        self.agent = ScriptedAgent(script)
        stream = FakeStream(self.agent)
        super().__init__(HOST, stream, stream.receive)
