"""Options of host telemetry during trials: the field `telemetry` of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from benchkit.models.base import Frozen

OFF = "off"


class TelemetryOptions(Frozen):
    """Options of host telemetry during a trial."""

    interval_s: float = Field(default=1.0, ge=0.1, le=60, description="seconds from one sample to the next")


def _off_is_none(value: object) -> object:
    """Map `off` to None; the word is text in YAML 1.2 and false in YAML 1.1, which some editors still write."""
    off = isinstance(value, str) and value.lower() == OFF
    return None if off or value is False else value


Telemetry = Annotated[
    TelemetryOptions | None,
    BeforeValidator(_off_is_none, json_schema_input_type=Literal["off", False] | TelemetryOptions | None),
]
"""`off` (None here), or the fields of `TelemetryOptions`."""
