"""A scripted agent in this process, behind a stream for the real link."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from benchkit.agent import operations as ops
from benchkit.agent.frames import FrameReader, pack
from benchkit.agent.server import Agent
from benchkit.errors import LostError
from benchkit.hosts.agent_link import AgentLink, RefusedError

HOST = "fake"

NO_ANSWER = object()
"""Entry of a script for a request that hangs."""

Script = Mapping[Callable[..., Any], object]
"""The answer to each operation: its result, an error, `NO_ANSWER`, or a function of the arguments that returns one."""


def refusal(kind: str, what: str, why: str | None = None) -> RefusedError:
    """Return the refusal of a request."""
    return RefusedError(kind, what, where=HOST, why=why)


class ScriptedAgent:
    """Answers requests from a script, and records their arguments."""

    def __init__(self, script: Script) -> None:
        self.requests: list[tuple[str, SimpleNamespace]] = []
        clocks = ops.Clocks(1_000_000_000, 2_000_000_000)
        self._script = {method.__qualname__: entry for method, entry in {Agent.read_clocks: clocks, **script}.items()}

    def answer(self, name: str, arguments: SimpleNamespace) -> object:
        """Record a request and return its answer."""
        self.requests.append((name, arguments))
        entry = self._script[name]
        return entry(arguments) if callable(entry) else entry

    def requested(self, method: Callable[..., Any]) -> list[SimpleNamespace]:
        """Return the arguments of all requests of an operation, as in JSON."""
        return [arguments for name, arguments in self.requests if name == method.__qualname__]


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
        if header["op"] == Agent.goodbye.__qualname__:
            self._output.put(pack({"id": header["id"], "ok": None}))
            return
        answer = self._agent.answer(header["op"], SimpleNamespace(**header["args"], **({"body": body} if body else {})))
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
