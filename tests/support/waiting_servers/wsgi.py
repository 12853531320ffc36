"""Applications for gunicorn: `wsgi:wait(20)` answers after 20 ms, `wsgi:ask(8080)` once another server has answered."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Sequence

Start = Callable[[str, Sequence[tuple[str, str]]], object]
Application = Callable[[object, Start], list[bytes]]


def wait(milliseconds: float) -> Application:
    """Return an application that waits before each answer."""
    return _answer_after(lambda: time.sleep(milliseconds / 1e3))


def ask(port: int) -> Application:
    """Return an application that asks a server of this machine before each answer, over a kept connection.

    As clients of databases do, it polls the socket with a timeout.
    """
    server = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def wait_for_answer() -> None:
        server.request("GET", "/")
        server.getresponse().read()

    return _answer_after(wait_for_answer)


def _answer_after(act: Callable[[], None]) -> Application:
    def application(_: object, start: Start) -> list[bytes]:
        act()
        start("200 OK", [("Content-Length", "12")])
        return [b"Hello World\n"]

    return application
