"""Go's net/http without a front end."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

NETHTTP = GoServer("nethttp", GoServerOptions, protocols=frozenset({"http1", "https1", "h2", "h2c"}))
