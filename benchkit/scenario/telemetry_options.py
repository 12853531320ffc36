"""How the hosts of a scenario are watched, as it says under `telemetry`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from benchkit.models.base import Frozen

OFF = "off"


class Watching(Frozen):
    """How often hosts are looked at during a trial."""

    interval_s: float = Field(default=1.0, ge=0.1, le=60, description="seconds from one look to the next")


def _off_is_none(value: object) -> object:
    """`off`, a word in YAML 1.2 and false in YAML 1.1, which many people write and some editors still go by."""
    off = isinstance(value, str) and value.lower() == OFF
    return None if off or value is False else value


Telemetry = Annotated[Watching | None, BeforeValidator(_off_is_none)]
"""`off`, or the fields of `Watching`; None: off."""
