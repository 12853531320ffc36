"""A result that somebody else published: the output of a load tool, or a row of a table."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.load_result import LoadResult


class PublishedResult(Frozen):
    """One published measurement; times in seconds, None for what is not stated."""

    name: str
    """Server, or file of the output."""
    tool: str | None = None
    connections: int | None = None
    rps: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    bytes_per_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[float, float] = Field(default_factory=dict, description="seconds by percentage: {99: 0.002}")
    resolution_s: float | None = Field(default=None, description="step in which times are stated")
    corrected: bool | None = Field(default=None, description="true: its times are corrected by the tool; None: unknown")
    failures: int | None = None
    complete: bool = True

    @property
    def label(self) -> str:
        """Name, with the connections where they are known."""
        return (
            self.name if self.connections is None else f"{self.name}, {units.counted(self.connections, 'connection')}"
        )


def result_of_output(name: str, output: LoadResult, connections: int | None = None) -> PublishedResult:
    """Return the output of a load tool; `connections` where it does not state them."""
    errors = output.errors
    counts = [errors.connect, errors.read, errors.write, errors.timeout, errors.other, output.non_2xx]
    known = [count for count in counts if count is not None]
    failures = sum(known) if known else output.failed
    if output.failed is not None:  # the tool's own sum, of which other lengths are no failures
        failures = max(failures or 0, output.failed - (output.failed_length or 0))
    return PublishedResult(
        name=name,
        tool=output.tool,
        connections=output.connections or connections,
        rps=output.rps,
        requests=output.requests,
        duration_s=output.duration_s,
        bytes_per_s=output.bytes_per_s,
        mean_s=output.latency.mean_s,
        max_s=output.latency.max_s,
        percentiles={float(percent): time for percent, time in output.latency.percentiles.items()},
        resolution_s=output.latency.resolution_s,
        corrected=output.latency.corrected,
        failures=failures,
        complete=output.complete,
    )
