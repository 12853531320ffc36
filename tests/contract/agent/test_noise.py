"""Slow and broken clients as their program runs them, on the oldest Python too, against a server of this process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchkit.agent import noise
from benchkit.store.telemetry_table import NoiseReport, read_noise
from tests.support.agent.fixtures import PYTHONS

BODY = b"x" * 3000
READ_BYTES = 10
"""Bytes that a slow reader reads at once."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
        else:
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture
def port() -> Iterator[int]:
    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


def run_noise(
    python: str, port: int, until: Callable[[NoiseReport], bool] | None = None, **config: object
) -> list[NoiseReport]:
    """Run the program until a report is as wanted, or to the end of its time, and return its reports.

    It has a low priority: on a busy machine nobody knows how much it does in a second.
    """
    wanted = {
        "address": "127.0.0.1",
        "port": port,
        "tls": False,
        "host": "localhost",
        "path": "/",
        "slow_readers": 0,
        "half_open": 0,
        "malformed_per_s": 0,
        "read_bytes_per_s": 1000,
        "seconds": 60,
        **config,
    }
    argv = [python, "-I", "-S", str(Path(noise.__file__)), json.dumps(wanted)]
    # Without a buffer: `communicate` would not see what was read ahead.
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        printed = b""
        try:
            if until is not None:
                for line in process.stdout:
                    printed += line
                    if until(read_noise(line)[-1]):
                        break
                process.terminate()
            rest, errors = process.communicate(timeout=90)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, b"")
    return read_noise(printed + rest)


def held_by_all(report: NoiseReport) -> bool:
    """Return whether all clients hold their connections, and readers have read for the first time."""
    return report.held == {"slow_readers": 5, "half_open": 3} and report.done["read_bytes"] >= 5 * READ_BYTES


@pytest.mark.parametrize("ends_by", ["its time", "a signal"])
@pytest.mark.parametrize("python", PYTHONS)
def test_clients_hold_their_connections_and_read_slowly(port: int, python: str, ends_by: str) -> None:
    until, seconds = (held_by_all, 60) if ends_by == "a signal" else (None, 4)
    read_bytes_per_s = round(READ_BYTES / noise.READ_EVERY_S)
    reports = run_noise(
        python, port, until, slow_readers=5, half_open=3, read_bytes_per_s=read_bytes_per_s, seconds=seconds
    )
    last = reports[-2]  # the last one comes with the end
    assert held_by_all(last)
    elapsed_s = (last.t_ns - reports[0].t_ns) / 1e9
    assert last.done["read_bytes"] <= 5 * READ_BYTES * (1 + elapsed_s / noise.READ_EVERY_S)
    assert last.done["responses"] == 0, "a whole one takes half a minute"
    assert [each.t_ns for each in reports] == sorted(each.t_ns for each in reports)


def test_malformed_requests_are_counted_by_their_answers(port: int) -> None:
    each_kind = len(noise.MALFORMED)
    reports = run_noise(PYTHONS[0], port, lambda report: report.done["malformed"] >= each_kind, malformed_per_s=20)
    last = reports[-1]
    assert each_kind <= last.done["malformed"] <= 2 + 20 * (last.t_ns - reports[0].t_ns) / 1e9
    assert sum(last.answers.values()) == last.done["malformed"]
    assert last.answers["501"] > 0  # this server has no POST
    assert last.answers["closed"] > 0  # and answers without a status line
