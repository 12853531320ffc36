"""A server that gives away what it gets: its log, its body and a cookie have the header Authorization."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Echo(BaseHTTPRequestHandler):
    """Answers 401 to a request without the header."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # a response in one write

    def do_GET(self) -> None:
        """Answer with the header's value."""
        value = self.headers.get("Authorization", "")
        body = value.encode()
        self.send_response(200 if value else 401)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", f"session={value}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Log the value."""
        sys.stdout.write(f"authorized by {self.headers.get('Authorization')}\n")


class Server(ThreadingHTTPServer):
    """A server whose queue holds the connections of a load tool."""

    request_queue_size = 128


Server(("0.0.0.0", int(sys.argv[1])), Echo).serve_forever()  # noqa: S104 - in a lab
