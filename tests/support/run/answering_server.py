"""A small HTTP/1.1 server for tests: `python3 answering_server.py PORT KIND`.

It answers `{"sum":6}` as JSON. `newline` adds one, `page` answers HTML, `counter` and `clock` have the number of the
request or the second in the body. `broken` answers another number from its 31st request on: after the few that come
before the load, and early in that on a slow machine too. `starting` refuses its first request, as a gateway does whose
own server still starts. `length` refuses a request that does not state the length of
its body once, and answers their sum.
"""

from __future__ import annotations

import http.server
import itertools
import json
import sys
import time

_NUMBERS = itertools.count(1)
_KIND = sys.argv[2]
_WORKING_REQUESTS = 30


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def answer(self) -> None:
        number = next(_NUMBERS)
        lengths = self.headers.get_all("Content-Length") or []
        content = self.rfile.read(int(lengths[0])) if len(lengths) == 1 else b""
        if _KIND == "length" and not content:
            self.send_error(411)
            return
        if _KIND == "starting" and number == 1:
            self.send_error(503)
            return
        body = {
            "newline": '{"sum":6}\n',
            "page": "<p>6</p>\n",
            "counter": f'{{"n":{number}}}',
            "clock": f'{{"at":{int(time.time())}}}',
            "broken": f'{{"sum":{6 if number <= _WORKING_REQUESTS else 7}}}',
            "length": json.dumps({"sum": sum(json.loads(content or "[]"))}, separators=(",", ":")),
        }.get(_KIND, '{"sum":6}')
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if _KIND == "page" else "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = answer  # noqa: N815 - the names http.server calls

    def log_message(self, *_arguments: object) -> None:
        """Log nothing: a line for every request would slow the server down."""


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


if __name__ == "__main__":
    _Server(("", int(sys.argv[1])), _Handler).serve_forever()
