"""HTTP/1.1 on the event loops of cloudwego/netpoll."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

NETPOLL = GoServer("netpoll", GoServerOptions)
