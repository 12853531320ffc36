"""The link to an agent: requests go out under numbers, answers come back in any order, each to whoever waits for it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from benchkit.agent.frames import COMPLAINT, FrameError, FrameReader, pack
from benchkit.errors import HostError, LostError
from benchkit.hosts.clock import elapsed_s
from benchkit.hosts.stream import Stream

PATIENCE_S = 15.0
"""What an answer may take on its way, beyond the time that the operation itself was given."""
SIGN_S = 15.0
"""An agent that was sent nothing for so long, at most, is asked for a sign of life, which renews its lease."""
SILENCE_S = 15.0
"""A host that gives no sign of life for so long after it was asked for one is taken for gone."""
LAST_WORDS_S = 1.0
"""What an agent says before it ends may still be on its way when the link breaks."""


@dataclass(frozen=True)
class Reply:
    """An agent's answer: its fields, and bytes where there are some."""

    fields: Mapping[str, Any]
    body: bytes


class RefusedError(HostError):
    """The agent could not do what it was asked to; `kind` says why in a word (not-found, denied, bad-path, os, …)."""

    def __init__(self, kind: str, what: str, *, where: str, why: str | None) -> None:
        """Take the agent's own words."""
        super().__init__(what, where=where, why=why)
        self.kind = kind


class Link:
    """One agent's requests and answers; safe for many threads."""

    def __init__(self, host: str, stream: Stream, receive: Callable[[int], bytes], sign_s: float | None = None) -> None:
        """`receive` reads what `stream` brings, from the agent's first frame on; it raises TimeoutError now and then.

        `sign_s` is after how long a sign of life is asked for, where that is sooner than usual.
        """
        self._host = host
        self._sign_s = sign_s
        self._stream = stream
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Reply]] = {0: Future()}
        self._hello = self._waiting[0]
        self._asked_s: dict[int, float] = {}
        self.alive_s = elapsed_s()
        """When the host was certainly there, by the clock of `elapsed_s`: the last question that it answered was asked then.

        Not when the answer was read: after a sleep of the controller it may have lain here for as long.
        """
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._sent_at = time.monotonic()
        self._end: tuple[str, str | None] | None = None
        self._closing = False
        self.in_good_order = False
        """Whether the agent was seen to end, having said what it could not put back; `close` finds out."""
        self._thread = threading.Thread(target=self._read, args=(receive,), name=f"link to {host}", daemon=True)
        self._thread.start()

    def hello(self) -> Reply:
        """What the agent says first. Raises HostError."""
        return self.result(self._hello, 0)

    def submit(self, op: str, args: Mapping[str, Any], body: bytes = b"") -> Future[Reply]:
        """Ask, and go on; the answer comes into the future. Raises LostError where the link is dead."""
        future: Future[Reply] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._end is not None:
                raise self._dead()
            self._waiting[number] = future
        try:
            self._send({"id": number, "op": op, "args": args}, body)
        except OSError as error:
            self._thread.join(LAST_WORDS_S)  # if the agent has ended, that is the better reason
            self._fail(f"the link broke ({error})")
        return future

    def request(self, op: str, args: Mapping[str, Any], body: bytes = b"", *, time_s: float = 0) -> Reply:
        """Ask and wait; `time_s` is what the operation itself may take. Raises RefusedError, LostError, HostError."""
        return self.result(self.submit(op, args, body), time_s)

    def result(self, future: Future[Reply], time_s: float) -> Reply:
        """The answer to a question that was submitted; `time_s` as in `request`.

        A link that lets one wait for longer is given up: what is asked next is not waited for again.
        """
        try:
            return future.result(time_s + PATIENCE_S)
        except TimeoutError:
            self._fail("no answer from the agent", f"waited {time_s + PATIENCE_S:.0f} s")
            raise self._dead() from None

    @property
    def is_dead(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._end is not None

    def close(self, patience_s: float) -> list[str]:
        """Have the agent tidy and end; what it could not tidy, in its own words, or that it could not be waited for."""
        self._closing = True
        if not self.is_dead:
            with self._sending, contextlib.suppress(OSError):
                self._stream.send(pack({"id": next(self._numbers), "op": "goodbye", "args": {}}))
                self._stream.end_input()
            self._thread.join(patience_s)
        code = self._stream.exit_code(1.0)
        said = self._stream.stderr()
        self._stream.close()
        self._thread.join()
        self.in_good_order = code == 0
        if self.in_good_order:
            return [line.removeprefix(COMPLAINT) for line in said.splitlines() if line.startswith(COMPLAINT)]
        return [f"the agent was not seen to end in good order: {said or 'the link is dead'}"]

    def _read(self, receive: Callable[[int], bytes]) -> None:
        """Hand out answers until the stream ends."""
        reader = FrameReader(lambda size: self._receive(receive, size))
        try:
            while (frame := reader.next()) is not None:
                self._hand_out(*frame)
        except TimeoutError:
            self._fail("the host has not been heard of for too long")
        except (OSError, FrameError) as error:
            self._fail(f"the link broke ({error})")
        else:
            self._fail("the agent ended")

    def _receive(self, receive: Callable[[int], bytes], size: int) -> bytes:
        """What comes next, however long that takes as long as there are signs of life."""
        asked_at: float | None = None
        sign_s = SIGN_S if self._sign_s is None else min(SIGN_S, self._sign_s)
        while True:
            if time.monotonic() > self._sent_at + sign_s and not self._closing:
                asked_at = asked_at or time.monotonic()
                self._ask_for_sign()
            try:
                return receive(size)
            except TimeoutError:
                if self._closing or (asked_at is not None and time.monotonic() > asked_at + SILENCE_S):
                    raise

    def _ask_for_sign(self) -> None:
        self._send({"id": next(self._numbers), "op": "clock", "args": {}})

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        with self._sending:
            self._asked_s[header["id"]] = elapsed_s()
            self._stream.send(pack(dict(header), body))
            self._sent_at = time.monotonic()

    def _hand_out(self, header: dict[str, Any], body: bytes) -> None:
        with self._lock:
            future = self._waiting.pop(header["id"], None)
            self.alive_s = max(self.alive_s, self._asked_s.pop(header["id"], self.alive_s))
        if future is None:  # a sign of life, or nobody waited any longer
            return
        if "ok" in header:
            future.set_result(Reply(header["ok"], body))
        else:
            error = header["error"]
            future.set_exception(RefusedError(error["kind"], error["what"], where=self._host, why=error["why"]))

    def _fail(self, what: str, why: str | None = None) -> None:
        """The link is dead: tell everybody who waits, and everybody who comes."""
        if not self._closing and why is None:
            self._stream.exit_code(LAST_WORDS_S)
        why = why or self._stream.stderr() or None
        with self._lock:
            if self._end is None:
                self._end = (what, why)
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(self._dead())

    def _dead(self) -> LostError:
        what, why = self._end or ("the link is dead", None)
        return LostError(what, where=self._host, why=why)
