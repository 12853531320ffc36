"""The sending side of a link: one thread sends whole frames, so that no signal can interrupt a frame."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from benchkit.hosts.stream import Stream


class FrameSender:
    """Sends frames in the order of `put`, in its own thread. Python handles signals in the main thread only."""

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
        """Send a frame after those that wait already."""
        with self._changed:
            if self._last is None:
                self._waiting.append(frame)
                self._changed.notify()

    def finish(self, frame: bytes, timeout_s: float) -> bool:
        """Drop the frames that wait, send this one after the current one, and end the input of the host.

        Return False where the host does not accept them in time; then the current frame may have been sent in part, and
        only closing the stream ends the thread.
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
        """Return the next frame; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._last is not None)
            if self._waiting:
                return self._waiting.popleft()
            frame, self._last = self._last, b""
            return frame or None
