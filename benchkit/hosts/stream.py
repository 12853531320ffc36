"""What a connection to an agent is made of, whatever carries it."""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """A program's stdin and stdout on a host. Failures of the connection are OSErrors."""

    def send(self, content: bytes) -> None:
        """Write to its stdin; TimeoutError where the host takes nothing for too long."""
        ...

    def receive(self, size: int) -> bytes:
        """1 to `size` bytes of its stdout, none at the end; TimeoutError where there was nothing for a while."""
        ...

    def end_input(self) -> None:
        """Close its stdin."""
        ...

    def stderr(self) -> str:
        """What it has printed to stderr, at the most its last 64 KiB."""
        ...

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code, -1 if it ended otherwise or out of sight; None where it has not ended within the time."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...
