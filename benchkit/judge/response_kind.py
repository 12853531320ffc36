"""The kind of a response: what two responses must share for a ratio of rates to compare the servers that sent them.

Bodies of one kind may differ in an id, a date or the rows of a table: this is stated with a ratio. Responses of
different kinds are other work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from benchkit.models.design import Trait
from benchkit.models.trial import ProbeRecord

SHORT_BYTES = 40
"""Difference that bodies of one kind may have whatever its factor: a UUID has 36 characters, a date up to 35."""


@dataclass(frozen=True)
class ResponseKind:
    """Status, media type and size of a response."""

    status: int
    media_type: str | None
    """None: not stated, and not compared."""
    body_bytes: float
    body_sha256: str | None = None
    """None: unknown."""

    @classmethod
    def of_probe(cls, probe: ProbeRecord) -> ResponseKind:
        """Return the kind of a response to a probe."""
        return cls(probe.status, probe.media_type, probe.body_bytes, probe.body_sha256)

    def differences(self, other: ResponseKind, factor: float, declared: Collection[Trait]) -> Iterator[str]:
        """Yield each difference of the kinds as a clause with both values, apart from traits that are declared.

        `factor` is that of sizes. Equal bodies, and those that are declared to differ, have no media type to compare.
        """
        if self.status != other.status and "status" not in declared:
            yield f"status {self.status} against {other.status}"
        if (
            "body" in declared
            or "body_bytes" in declared
            or (self.body_sha256 and self.body_sha256 == other.body_sha256)
        ):
            return
        if self.media_type and other.media_type and self.media_type != other.media_type:
            yield f"a body of {self.media_type} against {other.media_type}"
        low, high = similar_sizes(other.body_bytes, factor)
        if not low <= self.body_bytes <= high:
            yield f"{self.body_bytes:g} bytes of body against {other.body_bytes:g}"


def similar_sizes(body_bytes: float, factor: float) -> tuple[float, float]:
    """Return the smallest and the largest size of bodies of one kind with a body of this size.

    An empty body is a kind of its own.
    """
    if body_bytes == 0:
        return 0.0, 0.0
    smallest = max(1.0, min(body_bytes / factor, body_bytes - SHORT_BYTES))
    return smallest, max(body_bytes * factor, body_bytes + SHORT_BYTES)
