"""Slow and broken clients beside the measured load: their options, and what they did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from benchkit.models.base import Frozen
from benchkit.models.request import RequestPath

NOISE_SERVICE = "noise"
"""Name of the program of slow and broken clients in the telemetry."""
NOISE_FILE = "noise.jsonl"
"""Raw file of a trial with the reports that this program prints twice a second."""
MOST_CLIENTS = 10_000
MOST_MALFORMED_PER_S = 1000
_PER_SECOND = re.compile(r"\s*([0-9.]+)\s*/\s*s\s*\Z")


def _per_second(value: object) -> object:
    """Return the number of `1/s`; other values as they are."""
    match = _PER_SECOND.match(value) if isinstance(value, str) else None
    return match[1] if match else value


class Noise(Frozen):
    """Slow and broken clients of HTTP/1.1, from the first load host, through warm-up and window."""

    slow_readers: Annotated[int, Field(ge=0, le=MOST_CLIENTS)] = Field(
        default=0, description="connections that read their responses slowly, one after the other", examples=[50]
    )
    half_open: Annotated[int, Field(ge=0, le=MOST_CLIENTS)] = Field(
        default=0, description="connections that send half of a request, and wait", examples=[20]
    )
    malformed: Annotated[
        float,
        BeforeValidator(_per_second, json_schema_input_type=float | str),
        Field(ge=0, le=MOST_MALFORMED_PER_S, allow_inf_nan=False),
    ] = Field(
        default=0,
        description="malformed requests per second, each on a connection of its own: `1/s`, or a number",
        examples=["1/s"],
    )
    path: RequestPath | None = Field(
        default=None, description="path that they ask for; absent: the load's", examples=["/large"]
    )
    read_bytes_per_s: Annotated[int, Field(ge=10, le=10_000_000)] = Field(
        default=1000, description="bytes that each slow reader reads per second, in ten reads"
    )

    @property
    def connections(self) -> int:
        """Number of connections that the clients hold open."""
        return self.slow_readers + self.half_open

    @property
    def is_any(self) -> bool:
        """True where it has any client at all."""
        return bool(self.connections or self.malformed)


class NoiseRecord(Frozen):
    """Counts of the slow and broken clients of a trial in its measured window."""

    host: str
    argv: tuple[str, ...]
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that the program may run on (affinity)")
    cpu_s: float = Field(description="its CPU time in the window")
    observed_s: float = Field(description="time between the reports around the window")
    slow_readers: float = Field(description="mean number of connections of slow readers that were open")
    half_open: float = Field(description="mean number of connections with half of a request that were open")
    read_bytes: int = Field(description="bytes that slow readers read, with headers")
    responses: int = Field(description="responses that they read to the end")
    malformed: int = Field(description="malformed requests that were sent")
    answers: Mapping[str, int] = Field(
        default_factory=dict,
        description="answers to them: by status, `closed` (a closed connection) and `none` (nothing for 2 s)",
    )
    refused: int = Field(description="connections that could not be opened")
    closed: int = Field(description="connections of slow readers and half requests that the server closed")

    @property
    def connections(self) -> float:
        """Mean number of connections that it held open."""
        return self.slow_readers + self.half_open
