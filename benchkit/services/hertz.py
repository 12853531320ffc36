"""cloudwego/hertz, the HTTP framework that goes with cloudwego/netpoll."""

from __future__ import annotations

from benchkit.services.go_server import go_backend

HERTZ = go_backend("hertz")
