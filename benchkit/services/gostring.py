"""Go's net/http with a handler that writes a fixed string, two bytes unless told otherwise."""

from __future__ import annotations

from pydantic import Field

from benchkit.services.go_server import BodySize, GoServerOptions, go_backend


class GoStringOptions(GoServerOptions):
    """A net/http server that writes a string."""

    body_size: BodySize | None = Field(default=2, description="bytes of the string")


GOSTRING = go_backend("gostring", GoStringOptions)
