"""Go's net/http with a handler that writes a fixed string, by default of two bytes."""

from __future__ import annotations

from pydantic import Field

from benchkit.services.go_server import GoServer, GoServerOptions
from benchkit.services.server_options import BodySize


class GoStringOptions(GoServerOptions):
    """Options of a net/http server that writes a string."""

    body_size: BodySize | None = Field(default=2, description="bytes of the string")


GOSTRING = GoServer("gostring", GoStringOptions)
