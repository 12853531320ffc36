"""Go's net/http on its own."""

from __future__ import annotations

from benchkit.services.go_server import go_backend

NETHTTP = go_backend("nethttp")
