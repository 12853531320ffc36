"""The HTTP framework cloudwego/hertz, which is built on cloudwego/netpoll."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

HERTZ = GoServer("hertz", GoServerOptions)
