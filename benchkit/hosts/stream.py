"""The interface of a connection to an agent, over any transport."""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """The standard input and output of a program on a host. A broken connection raises OSError."""

    def send(self, content: bytes) -> None:
        """Write to standard input. Raises TimeoutError where the host accepts nothing for too long."""
        ...

    def receive(self, size: int) -> bytes:
        """Return 1 to `size` bytes of standard output, none at its end.

        Raises TimeoutError after a while without any.
        """
        ...

    def end_input(self) -> None:
        """Close standard input."""
        ...

    def stderr(self) -> str:
        """Return what was printed to standard error, at most its last 64 KiB."""
        ...

    def exit_code(self, timeout_s: float) -> int | None:
        """Return the exit code, -1 where there is none; None where the program has not ended within the time."""
        ...

    def close(self) -> None:
        """Close the connection without waiting for the program."""
        ...
