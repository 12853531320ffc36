"""The link to an agent: numbered requests, answered in any order, each delivered to the thread that waits for it."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from benchkit.agent import operations as ops
from benchkit.agent.common import HOST_STATE
from benchkit.agent.frames import FAILURE_PREFIX, FrameError, FrameReader, pack
from benchkit.agent.server import Agent
from benchkit.errors import HostError, HostStateError, LostError
from benchkit.hosts.clock import elapsed_s

ANSWER_TIMEOUT_S = 15.0
"""Time that an answer may take beyond the operation's own timeout."""
HEARTBEAT_S = 15.0
"""Time without a request after which a heartbeat is sent, which renews the agent's lease."""
HEARTBEAT_TIMEOUT_S = 15.0
"""Time that a host may take to answer a heartbeat before it is considered lost."""
HELLO_TIMEOUT_S = 60.0
"""Time for the agent to arrive over a slow link and to start."""
FRAME_TIMEOUT_S = 2.0
"""Time to finish the current frame when the link is closed; after it the connection is closed, and the watchdog
restores the host."""
LAST_OUTPUT_S = 1.0
"""Time to wait for an agent's last output and exit code, which may still be in transit when the link breaks."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
Method = Callable[Concatenate[Any, P], ResultT]
"""An operation of the agent: a method that is marked with `benchkit.agent.operations.operation`."""


class Stream(Protocol):
    """The standard input and output of a program on a host. A broken connection raises OSError."""

    def send(self, content: bytes) -> None:
        """Write to standard input. Raises TimeoutError where the host accepts nothing for too long."""

    def receive(self, size: int) -> bytes:
        """Return 1 to `size` bytes of standard output, none at its end; raise TimeoutError after a while without."""

    def end_input(self) -> None:
        """Close standard input."""

    def stderr(self) -> str:
        """Return the standard error output, at most its last 64 KiB."""

    def exit_code(self, timeout_s: float) -> int | None:
        """Return the exit code, -1 for an end without one; None where the program has not ended within the time."""

    def close(self) -> None:
        """Close the connection without waiting for the program."""


class FrameSender:
    """Sends frames in the order of `put`, in its own thread, so that the main thread stays free for signals."""

    def __init__(self, host: str, stream: Stream, fail: Callable[[OSError], None]) -> None:
        """Send over `stream`; a broken one ends the sender and is reported to `fail`."""
        self._stream = stream
        self._fail = fail
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._last: bytes | None = None
        self._ended = threading.Event()
        self.sent_at = time.monotonic()
        """Instant at which the stream had accepted the last frame."""
        self._thread = threading.Thread(target=self._run, name=f"sender to {host}", daemon=True)
        self._thread.start()

    def put(self, frame: bytes) -> None:
        """Queue a frame."""
        with self._changed:
            if self._last is None:
                self._waiting.append(frame)
                self._changed.notify()

    def finish(self, frame: bytes, timeout_s: float) -> bool:
        """Drop the queued frames, send this one after the current one, and close the host's standard input.

        Return False where the host does not accept both in time: then only closing the stream ends the thread.
        """
        with self._changed:
            self._waiting.clear()
            self._last = frame
            self._changed.notify()
        return self._ended.wait(timeout_s)

    def _run(self) -> None:
        try:
            while (frame := self._next()) is not None:
                self._stream.send(frame)
                self.sent_at = time.monotonic()
            self._stream.end_input()
        except OSError as error:
            self._fail(error)
        finally:
            self._ended.set()

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._last is not None)
            if self._waiting:
                return self._waiting.popleft()
            frame, self._last = self._last, b""
            return frame or None


class RefusedError(HostError):
    """A request that the agent refused; `kind` is the reason in one word (not-found, denied, bad-path, os, …)."""

    def __init__(self, kind: str, what: str, *, where: str, why: str | None) -> None:
        super().__init__(what, where=where, why=why)
        self.kind = kind


class ResourceExhaustedError(RefusedError, HostStateError):
    """A request that failed because the host lacks a resource for the moment, such as disk space."""


@dataclass(frozen=True)
class PendingRequest:
    """A request that was sent and not yet answered."""

    name: str
    decode: Callable[[Any, bytes], object]
    future: Future[Any]
    sent_s: float
    """Instant on the clock of `elapsed_s`."""


class AgentLink:
    """The link to one agent over a stream, which carries all operations on its host. Safe for many threads."""

    def __init__(
        self, host: str, stream: Stream, receive: Callable[[int], bytes], heartbeat_s: float | None = None
    ) -> None:
        """Start to read frames with `receive`; `heartbeat_s` is a shorter interval of heartbeats than usual."""
        self._host = host
        self._heartbeat_s = heartbeat_s
        self._stream = stream
        self._numbers = itertools.count(1)
        self.last_seen_s = elapsed_s()
        """Instant at which the last answered request was sent; answers may wait here while the controller sleeps."""
        self._hello: Future[ops.Hello] = Future()
        self._pending = {
            0: PendingRequest("Hello", lambda answer, _: ops.decode(ops.Hello, answer), self._hello, self.last_seen_s)
        }
        self._lock = threading.Lock()
        self._end: tuple[str, str | None] | None = None
        self._goodbye: Future[None] = Future()
        self._close_by: float | None = None
        """Instant until which `close` waits for the agent, on the clock of `time.monotonic`; None: not closing."""
        self._close_lock = threading.Lock()
        self._closed: list[str] | None = None
        self.shutdown_confirmed = False
        """True once `close` has seen the agent end and report what it could not restore."""
        self._sender = FrameSender(host, stream, self._sending_failed)
        self._thread = threading.Thread(target=self._read, args=(receive,), name=f"link to {host}", daemon=True)
        self._thread.start()

    def hello(self) -> ops.Hello:
        """Return the agent's first message. Raises HostError."""
        return self.result(self._hello, HELLO_TIMEOUT_S)

    def call(self, operation: Method[P, ResultT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        """Call an operation of the agent, such as `call(FileStore.mkdir, "trials")`, and return its result.

        Raises RefusedError, LostError or HostError.
        """
        return self.call_within(ops.OPERATIONS[operation.__qualname__], operation, *args, **kwargs)

    def call_within(
        self, timeout_s: float, operation: Method[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
    ) -> ResultT:
        """Call an operation that may take `timeout_s` seconds, as `call` does."""
        return self.result(self.submit(operation, *args, **kwargs), timeout_s)

    def submit(self, operation: Method[P, ResultT], /, *args: P.args, **kwargs: P.kwargs) -> Future[ResultT]:
        """Call an operation without waiting for its result. Raises LostError where the link is dead."""
        future: Future[ResultT] = Future()
        self._sender.put(self._frame(future, operation, *args, **kwargs))
        return future

    def result(self, future: Future[ResultT], timeout_s: float) -> ResultT:
        """Wait for the result of a submitted call, which may take `timeout_s` seconds.

        Without an answer in time the link is closed for all requests, so that none waits for this host.
        """
        patience_s = timeout_s + ANSWER_TIMEOUT_S
        try:
            return future.result(patience_s)
        except TimeoutError:
            self._fail("no answer from the agent", f"waited {patience_s:.0f} s")
            raise self._dead() from None

    def close(self, timeout_s: float) -> list[str]:
        """Have the agent restore everything and end; return what it could not restore, or why this is unknown.

        A second call returns the same.
        """
        with self._close_lock:
            if self._closed is None:
                self._closed = self._close(timeout_s)
            return self._closed

    def _close(self, timeout_s: float) -> list[str]:
        began = time.monotonic()
        self._close_by = began + timeout_s
        cut = None
        with suppress(LostError):  # the link is dead
            goodbye = self._frame(self._goodbye, Agent.goodbye)
            if self._sender.finish(goodbye, min(FRAME_TIMEOUT_S, timeout_s)):
                self._thread.join(timeout_s)
            else:
                cut = "the host did not accept what was being sent to it; the link was closed, and its watchdog restores it"
        code = None if cut else self._stream.exit_code(LAST_OUTPUT_S)
        printed = cut or self._stream.stderr()
        self._stream.close()
        self._thread.join()
        self.shutdown_confirmed = code == 0
        took_s = time.monotonic() - began
        if self.shutdown_confirmed:
            failures = [
                line.removeprefix(FAILURE_PREFIX) for line in printed.splitlines() if line.startswith(FAILURE_PREFIX)
            ]
            logger.info("%s: the agent ended after %.3f s, not restored: %s", self._host, took_s, failures or "nothing")
            return failures
        status = "without an exit code" if code in (None, -1) else f"with exit code {code}"
        why = printed or f"{': '.join(filter(None, self._end or ()))}, {status}"
        logger.info("%s: shutdown not confirmed after %.3f s: %s", self._host, took_s, why)
        return [f"shutdown not confirmed: {why}"]

    def _read(self, receive: Callable[[int], bytes]) -> None:
        reader = FrameReader(lambda size: self._receive(receive, size))
        try:
            while (frame := reader.next()) is not None:
                self._deliver(*frame)
        except TimeoutError:
            self._fail("no heartbeat from the host")
        except (OSError, FrameError) as error:
            self._fail(f"the link broke ({error})")
        else:
            if self._close_by is not None:
                # On a busy host, the agent may end seconds after its output.
                self._stream.exit_code(self._close_by - time.monotonic())
            self._fail("the agent ended")

    def _receive(self, receive: Callable[[int], bytes], size: int) -> bytes:
        """Return the next bytes; wait as long as heartbeats and the goodbye are answered.

        While the link is being closed, wait until `_close_by` at most.
        """
        asked_at: float | None = None
        heartbeat_s = HEARTBEAT_S if self._heartbeat_s is None else min(HEARTBEAT_S, self._heartbeat_s)
        while True:
            is_idle = self._hello.done() and time.monotonic() > self._sender.sent_at + heartbeat_s
            if self._close_by is None and is_idle:
                asked_at = asked_at or time.monotonic()
                with suppress(LostError):  # the link has just been declared dead
                    self._sender.put(self._frame(Future(), Agent.read_clocks))
            elif self._close_by is not None and not self._goodbye.done():
                asked_at = asked_at or time.monotonic()
            try:
                return receive(size)
            except TimeoutError:
                deadlines = [] if self._close_by is None else [self._close_by]
                deadlines += [] if asked_at is None else [asked_at + HEARTBEAT_TIMEOUT_S]
                if time.monotonic() > min(deadlines, default=math.inf):
                    raise

    def _frame(
        self, future: Future[ResultT], operation: Method[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
    ) -> bytes:
        number, name = next(self._numbers), operation.__qualname__
        arguments, body = ops.encode_call(operation, args, kwargs)
        frame = pack({"id": number, "op": name, "args": arguments}, body)
        pending = PendingRequest(name, partial(ops.decode_result, operation), future, elapsed_s())
        with self._lock:
            if self._end is not None:
                raise self._dead()
            self._pending[number] = pending
        logger.debug("%s: request %d %s: started, body of %d bytes", self._host, number, name, len(body))
        return frame

    def _sending_failed(self, error: OSError) -> None:
        self._thread.join(LAST_OUTPUT_S)  # the end of the agent would be a better reason
        self._fail(f"the link broke ({error})")

    def _deliver(self, header: dict[str, Any], body: bytes) -> None:
        with self._lock:
            pending = self._pending.pop(header["id"], None)
            if pending is not None:
                self.last_seen_s = max(self.last_seen_s, pending.sent_s)
        if pending is None:  # the link was declared dead
            return
        about = (self._host, header["id"], pending.name, elapsed_s() - pending.sent_s)
        if "ok" in header:
            logger.debug("%s: request %d %s: answered after %.6f s, body of %d bytes", *about, len(body))
            try:
                pending.future.set_result(pending.decode(header["ok"], body))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                what = f"the answer to {pending.name} cannot be read"
                pending.future.set_exception(HostError(what, where=self._host, why=repr(error)))
        else:
            refused = header["error"]
            logger.debug("%s: request %d %s: refused after %.6f s: %s (%s)", *about, refused["kind"], refused["what"])
            kind = ResourceExhaustedError if refused["kind"] == HOST_STATE else RefusedError
            pending.future.set_exception(kind(refused["kind"], refused["what"], where=self._host, why=refused["why"]))

    def _fail(self, what: str, why: str | None = None) -> None:
        if self._close_by is None and why is None:
            self._stream.exit_code(LAST_OUTPUT_S)
        why = why or self._stream.stderr() or None
        with self._lock:
            is_new = self._end is None
            if self._end is None:
                self._end = (what, why)
            pending, self._pending = self._pending, {}
        if is_new and self._close_by is None:
            unanswered = ", ".join(each.name for each in pending.values()) or "none"
            logger.info("%s: link lost: %s; unanswered: %s", self._host, f"{what}: {why}" if why else what, unanswered)
        for each in pending.values():
            each.future.set_exception(self._dead())

    def _dead(self) -> LostError:
        what, why = self._end or ("the link is dead", None)
        return LostError(what, where=self._host, why=why)
