"""What our servers send, of any size: cells are fair where all of them send the same bytes."""

from __future__ import annotations

HELLO = b"Hello World\n"


def hello(size: int) -> bytes:
    """The body of that many bytes: the words over and over, the last ones cut, as `backends/kit/response.go` makes it."""
    return (HELLO * (size // len(HELLO) + 1))[:size]
