"""What load a cell is put under: the request that a tool's `command` turns into an argument list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt, StringConstraints

from benchkit.models.base import Frozen

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$")]
"""RFC 9110, 5.1 and 5.5: tokens, and visible characters with blanks between them."""


def _from_root(path: object) -> object:
    """The path with the slash that it begins with."""
    return f"/{path}" if isinstance(path, str) and path[:1].isalnum() else path


class Load(Frozen):
    """The load of one cell, in the words all tools share; a tool refuses what it cannot honour.

    `connections`, `requests` and `rate` are totals over all generators.
    """

    tool: str
    connections: PositiveInt
    threads: PositiveInt = 1
    processes: PositiveInt = Field(default=1, description="generators a load host runs side by side")
    pin: bool = Field(
        default=False, description="each process on CPUs of its own, those of the role divided among them"
    )
    duration_s: PositiveFloat | None = None
    requests: PositiveInt | None = Field(default=None, description="stop after this many instead of after a time")
    warmup_s: float = Field(default=0, ge=0, description="the same load before the measured window, thrown away")
    keepalive: bool = True
    method: Annotated[str, StringConstraints(pattern=r"^[A-Z]{1,20}$")] = "GET"
    path: Annotated[str, BeforeValidator(_from_root), StringConstraints(pattern=r"^/[!-~]*$")] = Field(
        default="/", description="without a slash in front of it too, for levels of factors cannot begin with one"
    )
    headers: Mapping[HeaderName, HeaderValue] = Field(default_factory=dict)
    body: str | None = None
    rate: PositiveFloat | None = Field(default=None, description="requests per second; None: as fast as it goes")
    timeout_s: PositiveFloat | None = None
    histogram: bool = Field(
        default=True, description="every request's time recorded; False: only what the tool sums up by itself"
    )
    extra_args: tuple[str, ...] = ()
