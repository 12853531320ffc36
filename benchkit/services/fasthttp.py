"""valyala/fasthttp on its own."""

from __future__ import annotations

from benchkit.services.go_server import go_backend

FASTHTTP = go_backend("fasthttp")
