"""A server with one fault of a kind that users' servers have: `faulty_server.py FAULT HOST PORT`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers `Hello World`, or 500."""

    def do_GET(self) -> None:
        body = b"Hello World\n"
        if fault == "answers-500":
            sys.stderr.write("no such table: users\n")
        self.send_response(500 if fault == "answers-500" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *args: object) -> None:
        """Log nothing."""


class Server6(HTTPServer):
    """Listens on IPv6, on `::` for IPv4 too unless it is the fault that it does not."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(fault == "only-ipv6"))
        super().server_bind()


fault, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.stderr.write("starting\n")
if fault == "dies":
    sys.stderr.write("database.example: no such host\n")
    sys.exit(3)
if fault == "never-listens":
    time.sleep(600)
if fault == "goes-to-background":
    if os.fork():
        sys.exit(0)
    time.sleep(0.5)  # it listens after its parent has ended
if fault == "ignores-term":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "leaves-children" and os.fork() == 0:
    time.sleep(600)
if fault == "slow":
    time.sleep(1.5)
if fault == "loopback":
    host = "127.0.0.1"
if fault == "only-ipv6":
    host = "::"
server_class = Server6 if ":" in host else HTTPServer
server_class((host, port + 1 if fault == "other-port" else port), Handler).serve_forever()
