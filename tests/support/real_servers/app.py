"""Applications for servers of Python: each request counts to TURNS."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

TURNS = int(os.environ.get("TURNS", "0"))
BODY = b"hello\n"


def wsgi(_environment: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    for _ in range(TURNS):
        pass
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))])
    return [BODY]


async def asgi(scope: dict[str, Any], _receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    assert scope["type"] == "http"
    for _ in range(TURNS):
        pass
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
