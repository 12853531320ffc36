"""HTTP/1.1 on the event loops of panjf2000/gnet."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

GNET = GoServer("gnet", GoServerOptions)
