"""Go's net/http on its own."""

from __future__ import annotations

from functools import partial

from benchkit.stack.backend import Backend
from benchkit.stack.goserver import GoServerOptions, render_go_server

NETHTTP = Backend("nethttp", GoServerOptions, partial(render_go_server, program="nethttp"))
