"""A small HTTP/1.1 server on loopback for load tools in tests. As a script it runs until its stdin is closed.

It prints its port. `/` answers 12 bytes. Paths that start with these words differ. `missing` answers 404, `fail` every
third time 503, `vary` a different length each time, `slow` after 30 ms, `stall` after 1.5 s. `drop` closes every fourth
connection without an answer, `outage` forty of eighty. `echo` prints and answers the request's method, body,
X-Test header and every value of its Content-Length. `count` counts such requests, whose numbers are printed at the end.
"""

from __future__ import annotations

import http.server
import itertools
import json
import sys
import threading
import time
from collections import Counter

_COUNTER = itertools.count()
_SEEN: Counter[tuple[str, str, str | None, str]] = Counter()
_LOCK = threading.Lock()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "small"
    sys_version = ""
    wbufsize = -1
    disable_nagle_algorithm = True

    def answer(self) -> None:
        number = next(_COUNTER)
        word = self.path.lstrip("/")
        request_body = self.whole_body()
        status, body = 200, b"hello world\n"
        if word.startswith("missing"):
            status = 404
        elif word.startswith("fail") and number % 3 == 0:
            status = 503
        elif word.startswith("vary"):
            body = b"x" * (10 + number % 7)
        elif word.startswith("slow"):
            time.sleep(0.03)
        elif word.startswith("stall"):
            time.sleep(1.5)
        elif word.startswith("echo"):
            lengths = ",".join(self.headers.get_all("Content-Length") or ["none"])
            body = f"{self.command} {request_body.decode()} {self.headers.get('X-Test')} {lengths}\n".encode()
            sys.stdout.write(body.decode())
            sys.stdout.flush()
        elif word.startswith("count"):
            with _LOCK:
                _SEEN[self.command, self.path, self.headers.get("X-Test"), request_body.hex()] += 1
        elif (word.startswith("drop") and number % 4 == 0) or (word.startswith("outage") and number % 80 < 40):
            self.close_connection = True
            return
        closing = self.headers.get("Connection", "").lower()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        if closing in {"close", "keep-alive"}:
            self.send_header("Connection", closing)
        self.end_headers()
        self.wfile.write(body)

    def whole_body(self) -> bytes:
        """Return the body. Raises ConnectionError where the load tool ended before it had sent all of it."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionResetError
        return body

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names http.server calls

    def log_message(self, *_arguments: object) -> None:
        """Log nothing: a line for every request would slow the server down."""


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        """Ignore errors of connections that a load tool has left open at its end."""


def main() -> None:
    """Serve until stdin is closed."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201 - the port is what a caller reads
    sys.stdin.read()
    server.shutdown()
    for request, number in _SEEN.items():
        print(json.dumps([*request, number]))  # noqa: T201 - what a caller reads


if __name__ == "__main__":
    main()
