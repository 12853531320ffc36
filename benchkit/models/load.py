"""The load of a cell, which `Tool.command` turns into an argument list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt, StringConstraints

from benchkit.models.base import Frozen

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$")]
"""Header names and values of RFC 9110, 5.1 and 5.5: tokens, and visible characters with blanks between them."""


def _from_root(path: object) -> object:
    """Return a path with a slash at its start."""
    return f"/{path}" if isinstance(path, str) and path[:1].isalnum() else path


class Load(Frozen):
    """The load of one cell, the same for all tools; a tool refuses a field that it does not support.

    `connections`, `requests` and `rate` are totals over all generators.
    """

    tool: str = Field(description="load tool: wrk, ab, hey, h2load, siege, vegeta, …", examples=["wrk"])
    connections: PositiveInt = Field(description="open connections", examples=[64])
    threads: PositiveInt = Field(default=1, description="threads of each generator process")
    processes: PositiveInt = Field(default=1, le=1024, description="generator processes on each load host")
    pin: bool = Field(
        default=False,
        description="run each process on CPUs of its own: the CPUs of the role are divided among the processes",
    )
    duration_s: PositiveFloat | None = Field(
        default=None, description="measured window in seconds; this or `requests` is required", examples=[5]
    )
    requests: PositiveInt | None = Field(
        default=None, description="stop after this number of requests instead of after a time", examples=[10000]
    )
    warmup_s: float = Field(
        default=0, ge=0, description="run the same load for this time before the measured window, without recording it"
    )
    keepalive: bool = Field(default=True, description="keep connections open from one request to the next")
    method: Annotated[str, StringConstraints(pattern=r"^[A-Z]{1,20}$")] = Field(
        default="GET", description="method of the requests"
    )
    path: Annotated[str, BeforeValidator(_from_root), StringConstraints(pattern=r"^/[!-~]*$")] = Field(
        default="/", description="the leading slash is optional, because levels of factors cannot begin with one"
    )
    headers: Mapping[HeaderName, HeaderValue] = Field(
        default_factory=dict, description="headers of the requests, by name", examples=[{"Accept": "text/html"}]
    )
    body: str | None = Field(default=None, description="body of the requests", examples=["hello"])
    rate: PositiveFloat | None = Field(
        default=None, description="target rate in requests per second; None: as fast as possible", examples=[1000]
    )
    timeout_s: PositiveFloat | None = Field(
        default=None,
        description="time after which a request has failed, in seconds; absent: that of the tool",
        examples=[10],
    )
    histogram: bool = Field(
        default=True, description="record the time of every request; False: only the tool's own summary"
    )
    extra_args: tuple[str, ...] = Field(
        default=(), description="arguments that are passed on to the tool unchanged", examples=[["--latency"]]
    )
