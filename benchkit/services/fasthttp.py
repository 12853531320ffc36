"""The HTTP server valyala/fasthttp, which study 4 compares with net/http."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, PositiveInt

from benchkit.services.backend import RenderRequest
from benchkit.services.go_server import GoServer, GoServerOptions


class FastHttpOptions(GoServerOptions):
    """Options of a server on fasthttp."""

    concurrency: PositiveInt | None = Field(
        default=None,
        description="connections that it serves at a time (Server.Concurrency), others get status 503; absent: 262144",
        examples=[1000],
    )


class FastHttp(GoServer[FastHttpOptions]):
    """A Go server with the limit of its connections as an argument."""

    def arguments(self, request: RenderRequest[FastHttpOptions]) -> Sequence[str]:
        """Return the limit, if one is set."""
        limit = request.options.concurrency
        return () if limit is None else ("-concurrency", str(limit))


FASTHTTP = FastHttp("fasthttp", FastHttpOptions, protocols=frozenset({"http1", "https1"}))
