"""Limits that the authors name, on the real programs: connections, checksums of private modules, a crashed process."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import platform
import shutil
import signal
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchkit.files import BACKENDS
from benchkit.services.go_build import GoSource, find_go
from tests.support.ports import free_port

WAIT_S, ANSWER_S = 120.0, 2.0
GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
SERVED, ASKED = 4, 12
MODULE, VERSION = "mycompany.com/go/module1", "v1.0.0"

CLUSTER = """
const cluster = require('node:cluster'), http = require('node:http');
if (cluster.isPrimary) for (let i = 0; i < 2; i++) cluster.fork();
else http.createServer((_, answer) => answer.end(String(process.pid))).listen(PORT, '127.0.0.1');
"""
"""Node's cluster module as its documentation has it: the primary does not end with a worker."""


@contextmanager
def running(argv: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block; it answers at its start."""
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        within(lambda: answer(port) is not None)
        yield server
    finally:
        server.kill()
        server.wait()


def within(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answer(port: int) -> bytes | None:
    """Return the body of an answer over a new connection; None where it is refused, or was given to a killed worker."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)) as connection:
        try:
            connection.request("GET", "/", headers={"Connection": "close"})
            return connection.getresponse().read()
        except (ConnectionError, TimeoutError):
            return None


def workers(port: int) -> list[int]:
    """Return the processes that answer, by their ids."""
    return sorted({int(body) for body in (answer(port) for _ in range(8)) if body is not None})


def go_server(name: str) -> str:
    """Return the path of a built backend."""
    return str(GoSource(BACKENDS / name, "linux", GOARCH).read())


def statuses(port: int, connections: int) -> list[int]:
    """Return the status of an answer over each of these connections, all of them open at once."""
    found = []
    with ExitStack() as opened:
        for _ in range(connections):
            connection = opened.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)))
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            found.append(response.status)
    return found


def test_connections_beyond_the_concurrency_of_fasthttp_are_answered_with_503() -> None:
    server = go_server("fasthttp")
    port = free_port()
    with running([server, "-listen", f"127.0.0.1:{port}", "-concurrency", str(SERVED)], port):
        # The server counts a closed connection until it has seen its end, which a busy machine delays.
        within(lambda: statuses(port, ASKED) == [200] * SERVED + [503] * (ASKED - SERVED))


def test_a_crashed_worker_leaves_the_others_up_and_a_crashed_go_process_nothing(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    port = free_port()
    script = tmp_path / "cluster.js"
    script.write_text(CLUSTER.replace("PORT", str(port)))
    with running([node, str(script)], port):
        answering: set[int] = set()

        def both_have_answered() -> bool:
            answering.update(workers(port))
            return len(answering) == 2

        within(both_have_answered)
        first, second = answering
        os.kill(first, signal.SIGKILL)
        within(lambda: workers(port) == [second])
    go = go_server("nethttp")
    port = free_port()
    with running([go, "-listen", f"127.0.0.1:{port}"], port) as server:
        server.kill()
        server.wait()
        assert answer(port) is None


class UnknownModules(BaseHTTPRequestHandler):
    """A checksum database that, as the public one does, knows no private module."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def checksums() -> Iterator[str]:
    """URL of the checksum database."""
    with ThreadingHTTPServer(("127.0.0.1", 0), UnknownModules) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def verifier(name: str) -> str:
    """Return the name of a checksum database with a public key, as golang.org/x/mod/sumdb/note has it."""
    key = b"\x01" + bytes(32)
    digest = hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8]
    return f"{name}+{digest}+{base64.b64encode(key).decode()}"


@pytest.fixture
def proxy(tmp_path: Path) -> str:
    """URL of a module proxy that serves a private module."""
    folder = tmp_path / "proxy" / MODULE / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(f"{VERSION}\n")
    (folder / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": "2021-09-03T00:00:00Z"}))
    (folder / f"{VERSION}.mod").write_text(f"module {MODULE}\n")
    with zipfile.ZipFile(folder / f"{VERSION}.zip", "w") as archive:
        archive.writestr(f"{MODULE}@{VERSION}/go.mod", f"module {MODULE}\n")
        archive.writestr(f"{MODULE}@{VERSION}/module1.go", "package module1\n")
    return f"file://{tmp_path / 'proxy'}"


@pytest.mark.parametrize("private", ["", "mycompany.com/go"], ids=["missing", "set"])
def test_a_missing_gonosumdb_makes_go_get_fail(private: str, proxy: str, checksums: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "go.mod").write_text("module mine\n\ngo 1.21\n")
    settings = {
        "GOPROXY": proxy,
        "GONOSUMDB": private,
        "GOSUMDB": f"{verifier('sums.example')} {checksums}",
        "GOPRIVATE": "",
        "GONOPROXY": "",
        "GOTOOLCHAIN": "local",
        "GOENV": "off",
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(tmp_path / "cache"),
    }
    argv = [find_go(), "get", f"{MODULE}@{VERSION}"]
    done = subprocess.run(argv, cwd=mine, env=os.environ | settings, capture_output=True, text=True, check=False)
    if private:
        assert done.returncode == 0, done.stderr
        assert f"{MODULE} {VERSION}" in (mine / "go.mod").read_text()
    else:
        assert done.returncode != 0
        assert f"{MODULE}@{VERSION}: verifying" in done.stderr
        assert "404" in done.stderr
