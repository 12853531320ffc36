"""Go's net/http without a front end."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

NETHTTP = GoServer("nethttp", GoServerOptions)
