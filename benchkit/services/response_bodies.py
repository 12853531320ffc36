"""The bodies that the servers of benchkit's own send: a fair comparison needs the same bytes from all of them."""

from __future__ import annotations

HELLO = b"Hello World\n"


def hello_body(size: int) -> bytes:
    """Return a body of `size` bytes: HELLO repeated and truncated, as `backends/kit/response.go` makes it."""
    return (HELLO * (size // len(HELLO) + 1))[:size]
