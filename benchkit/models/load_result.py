"""The result of one run of a load tool, the same for all tools (`benchkit parse TOOL FILE --json`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.protocol import Negotiated


class Latency(Frozen):
    """Response times in seconds; None where the tool does not state them."""

    min_s: float | None = None
    mean_s: float | None = None
    stdev_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[str, float] = Field(
        default_factory=dict, description='seconds by percentile; keys as written: "50", "99.9"'
    )
    resolution_s: float | None = Field(default=None, description="step in which the tool states times")
    covers: Literal["request", "connect+request"] | None = Field(
        default=None, description="part of a request that a time covers"
    )
    corrected: bool | None = Field(default=None, description="true if the tool corrected for coordinated omission")


class Errors(Frozen):
    """Failed requests by kind; `None` where the tool has no count of that kind."""

    connect: int | None = None
    read: int | None = None
    write: int | None = None
    timeout: int | None = None
    other: int | None = None


class Note(Frozen):
    """A limit or defect of the tool that applies to this output."""

    code: str
    message: str


class LoadResult(Frozen):
    """Result of a run of a load tool: counts as it states them, times in seconds, sizes in bytes, rates per second."""

    tool: str
    tool_version: str | None = None
    target: str | None = None
    duration_s: float | None = None
    requests: int | None = None
    rps: float | None = None
    connections: int | None = None
    threads: int | None = None
    bytes_total: float | None = None
    bytes_per_s: float | None = None
    latency: Latency = Latency()
    connect_mean_s: float | None = Field(default=None, description="mean time to open a connection")
    first_byte_mean_s: float | None = Field(
        default=None, description="mean time to the first byte of an answer; its start depends on the tool"
    )
    errors: Errors = Errors()
    status: Mapping[str, int] = Field(default_factory=dict, description='responses by status code: {"200": 12}')
    non_2xx: int | None = None
    failed: int | None = Field(default=None, description="failed requests as the tool counts them")
    failed_length: int | None = Field(
        default=None, description="those of `failed` whose only difference is their length"
    )
    availability: float | None = Field(default=None, ge=0, le=1)
    complete: bool = Field(
        default=True, description="false if the run did not finish, or a part of its output is missing"
    )
    negotiated: Negotiated | None = Field(
        default=None, description="protocol and cipher of its connections; None where the tool does not state them"
    )
    notes: tuple[Note, ...] = ()
