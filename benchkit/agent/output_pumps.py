"""Output of processes: copied to files or memory, up to a limit."""

from __future__ import annotations

import os
import selectors
import threading
import time
from typing import List, Optional, Tuple

from benchkit.agent.common import HOST_STATE, error_kind, write_all
from benchkit.agent.frames import Json


class Sink:
    """The destination of an output: a file or memory, up to a limit; bytes beyond it are counted and dropped."""

    def __init__(self, max_bytes: int, fd: Optional[int] = None) -> None:
        self.kept = bytearray()
        self.size = 0
        self.dropped = 0
        self.error: Optional[str] = None
        self.is_host_state = False
        self.done = threading.Event()
        self._max = max_bytes
        self._fd = fd

    def write(self, piece: bytes) -> None:
        """Write or drop a piece of output."""
        keep = piece[: self._max - self.size] if self.error is None else b""
        try:
            if self._fd is None:
                self.kept += keep
            else:
                write_all(self._fd, keep)
        except OSError as error:
            self.error = error.strerror
            self.is_host_state = error_kind(error) == HOST_STATE
            keep = b""
        self.size += len(keep)
        self.dropped += len(piece) - len(keep)

    def close(self) -> None:
        """Close the file at the end of the output."""
        if self._fd is not None:
            os.close(self._fd)
        self.done.set()

    def report(self) -> Json:
        """Return the sizes of the output."""
        return {
            "size": self.size,
            "dropped": self.dropped,
            "error": self.error,
            "is_host_state": self.is_host_state,
        }


class Pump(threading.Thread):
    """Copies the output of all processes to their sinks, so that no process can fill the disk."""

    PIECE = 65536

    def __init__(self) -> None:
        super().__init__(name="pump", daemon=True)
        self._selector = selectors.DefaultSelector()
        wake_out, self._wake_in = os.pipe2(os.O_CLOEXEC)
        self._selector.register(wake_out, selectors.EVENT_READ)
        self._new: List[Tuple[int, Sink]] = []
        self._flushes: List[threading.Event] = []

    def add(self, fd: int, sink: Sink) -> None:
        """Copy the output of `fd` to `sink`, and close both at its end."""
        self._new.append((fd, sink))
        os.write(self._wake_in, b"+")

    def flush(self) -> None:
        """Return once all that processes have printed so far is in its sinks."""
        done = threading.Event()
        self._flushes.append(done)
        os.write(self._wake_in, b"+")
        done.wait()

    def run(self) -> None:
        """Copy outputs until the agent ends."""
        asked: List[threading.Event] = []
        while True:
            # What was printed before a flush is readable in the round after the one that hears of it, at the latest.
            due, asked = asked, []
            for key, _ in self._selector.select(0 if due else None):
                piece = os.read(key.fd, self.PIECE)
                if key.data is None:
                    while self._new:
                        fd, sink = self._new.pop()
                        self._selector.register(fd, selectors.EVENT_READ, sink)
                    while self._flushes:
                        asked.append(self._flushes.pop())
                elif piece:
                    key.data.write(piece)
                    if key.data.dropped:
                        time.sleep(0.001)  # slows down a process that prints beyond its limit
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data.close()
            for done in due:
                done.set()
