"""The HTTP server of valyala/fasthttp."""

from __future__ import annotations

from benchkit.services.go_server import GoServer, GoServerOptions

FASTHTTP = GoServer("fasthttp", GoServerOptions, protocols=frozenset({"http1", "https1"}))
