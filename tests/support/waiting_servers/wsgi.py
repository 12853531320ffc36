"""An application for gunicorn: `gunicorn 'wsgi:wait(20)'` answers after 20 ms."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Start = Callable[[str, Sequence[tuple[str, str]]], object]


def wait(milliseconds: float) -> Callable[[object, Start], list[bytes]]:
    """Return an application that waits before each answer."""

    def application(_: object, start: Start) -> list[bytes]:
        time.sleep(milliseconds / 1e3)
        start("200 OK", [("Content-Length", "12")])
        return [b"Hello World\n"]

    return application
