"""valyala/fasthttp on its own."""

from __future__ import annotations

from benchkit.stack.goserver import go_backend

FASTHTTP = go_backend("fasthttp")
