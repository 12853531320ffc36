"""Headless Chromium for tests of pages."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SANDBOX = ["--no-sandbox"] if os.geteuid() == 0 else []
"""Chromium's sandbox refuses root."""
ON_3_AND_4 = """
import fcntl, os, sys
there, here = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 5) for number in sys.argv[1:3])
os.dup2(there, 3)
os.dup2(here, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads from descriptor 3 and writes to 4."""
ANSWER_S = 120.0
"""Time without an answer after which the browser hangs."""


@dataclass
class Browser:
    """Headless Chromium, controlled by its DevTools protocol over a pair of pipes."""

    to: BinaryIO
    back: RawIOBase
    session: str | None = None
    received: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def call(self, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Call a method and wait for its result; events in the meantime are appended to `events`."""
        number = next(self.numbers)
        request = {"id": number, "method": method, "params": params}
        self.to.write(json.dumps(request | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        self.to.flush()
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path) -> None:
        """Open a file in a tab of its own, and wait until it is loaded."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
        # The blank page of a new tab is loaded, too: at any time, and before the file or not.
        loader = self.call("Page.navigate", url=page.as_uri())["loaderId"]
        while not self._has_loaded(loader):
            self.events.append(self._next())
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def happened(self, *methods: str) -> list[dict[str, Any]]:
        """Return the events of these methods in the open tab."""
        return [
            event for event in self.events if event.get("method") in methods and event.get("sessionId") == self.session
        ]

    def close(self) -> None:
        """Ask the browser to end; it may do so before it has answered."""
        self.to.write(json.dumps({"id": next(self.numbers), "method": "Browser.close"}).encode() + b"\0")
        self.to.flush()

    def _has_loaded(self, loader: str) -> bool:
        events = (event["params"] for event in self.happened("Page.lifecycleEvent"))
        return any((event["loaderId"], event["name"]) == (loader, "load") for event in events)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.received:
            assert select.select([self.back], [], [], ANSWER_S)[0], "the browser does not answer"
            piece = os.read(self.back.fileno(), 1 << 16)
            assert piece, "the browser ended"
            self.received += piece
        message, _, self.received = self.received.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        return event


@contextmanager
def _browser(profile: Path) -> Iterator[Browser]:
    assert CHROMIUM is not None
    (there, to), (back, here) = os.pipe(), os.pipe()
    options = [
        "--headless",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        *SANDBOX,
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    argv = [sys.executable, "-c", ON_3_AND_4, str(there), str(here), CHROMIUM, *options]
    with subprocess.Popen(argv, pass_fds=(there, here), stdout=subprocess.DEVNULL) as process:
        os.close(there)
        os.close(here)
        with os.fdopen(to, "wb") as writer, os.fdopen(back, "rb", buffering=0) as reader:
            browser = Browser(writer, reader)
            try:
                yield browser
                browser.close()
            finally:
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for the session."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with _browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Callable[[str], Browser]:
    """Opens a page given as text."""

    def open_page(html: str) -> Browser:
        page = tmp_path / "page.html"
        page.write_text(html, encoding="utf-8")
        browser.open(page)
        return browser

    return open_page
