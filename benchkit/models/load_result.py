"""The result of one run of a load tool, the same for all tools (`benchkit parse TOOL FILE --json`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Annotated, Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.protocol import Negotiated


class Merge(Enum):
    """Rule by which a figure of several outputs becomes one; None where an output lacks it.

    The outputs are of generators that ran together, or of slices that one cell had one after the other.
    """

    SUM = auto()
    """The sum: counts, also by kind or status."""
    TOGETHER = auto()
    """The sum over generators; all slices have the same value."""
    RATE = auto()
    """The sum over generators; over slices the mean, weighted by their durations."""
    MEAN = auto()
    """The mean, weighted by requests."""
    COMMON = auto()
    """The value that all have; None where they differ."""
    EVERY = auto()
    """True where it is true of all."""


Covers = Literal["request", "connect+request"]
"""Part of a request that a latency covers."""


class Latency(Frozen):
    """Response times in seconds; None where the tool does not state them."""

    min_s: float | None = None
    mean_s: float | None = None
    stdev_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[str, float] = Field(
        default_factory=dict, description='seconds by percentile as written: "99.9"'
    )
    resolution_s: float | None = Field(default=None, description="step in which the tool states times")
    covers: Covers | None = Field(default=None, description="part of a request that a time covers")
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
    """Result of a run of a load tool: counts as it states them, times in seconds, sizes in bytes, rates per second.

    A field says how it merges; those without a rule are merged in `benchkit.loadtools.trial_result`.
    """

    tool: str
    tool_version: str | None = None
    target: str | None = None
    duration_s: float | None = None
    requests: Annotated[int | None, Merge.SUM] = None
    rps: Annotated[float | None, Merge.RATE] = None
    answered_rps: Annotated[float | None, Merge.RATE] = Field(
        default=None,
        description="requests divided by the time until the last answer, where `rps` is the rate of sending",
    )
    connections: Annotated[int | None, Merge.TOGETHER] = None
    threads: Annotated[int | None, Merge.TOGETHER] = None
    users: Annotated[int | None, Merge.TOGETHER] = Field(
        default=None, description="virtual users, which may pause between requests"
    )
    bytes_total: Annotated[float | None, Merge.SUM] = None
    bytes_per_s: Annotated[float | None, Merge.RATE] = None
    latency: Latency = Latency()
    connect_mean_s: Annotated[float | None, Merge.MEAN] = Field(default=None, description="mean time to connect")
    first_byte_mean_s: Annotated[float | None, Merge.MEAN] = Field(
        default=None, description="mean time to the first byte of an answer"
    )
    errors: Annotated[Errors, Merge.SUM] = Errors()
    status: Annotated[Mapping[str, int], Merge.SUM] = Field(
        default_factory=dict, description="responses by status code"
    )
    non_2xx: Annotated[int | None, Merge.SUM] = None
    failed: Annotated[int | None, Merge.SUM] = Field(default=None, description="as the tool counts them")
    failed_length: Annotated[int | None, Merge.SUM] = Field(
        default=None, description="of `failed`, those that only differ in length"
    )
    aborted: Annotated[int | None, Merge.SUM] = Field(default=None, description="in flight when the run ended")
    dropped: Annotated[int | None, Merge.SUM] = Field(default=None, description="due in an open model and never sent")
    availability: float | None = Field(default=None, ge=0, le=1)
    complete: Annotated[bool, Merge.EVERY] = Field(
        default=True, description="false: the run did not finish, or output is missing"
    )
    negotiated: Annotated[Negotiated | None, Merge.COMMON] = Field(default=None, description="protocol and cipher")
    notes: tuple[Note, ...] = ()
