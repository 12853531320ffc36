"""CPUs as a scenario names them: a count, or positions among the CPUs of a host or role."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from benchkit.models.base import Frozen

_LIST = r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"


def cpu_places(text: str) -> tuple[int, ...]:
    """Return the positions in a list of the form that taskset(1) takes: `0-2,6` → (0, 1, 2, 6).

    Raises ValueError for a descending range and for a CPU named twice.
    """
    places: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        span = range(int(first), int(last if dash else first) + 1)
        if not span:
            raise ValueError(f"found {text!r}: the range {part} is descending")
        places += span
    if len(set(places)) < len(places):
        raise ValueError(f"found {text!r}: names a CPU twice")
    return tuple(places)


def _checked(text: str) -> str:
    cpu_places(text)
    return text


CpuPlaces = Annotated[str, StringConstraints(strict=True, pattern=_LIST), AfterValidator(_checked)]
"""Positions, counted from 0, among the available CPUs, regardless of their numbers: `0-3,6`."""

CpuCount = Literal["all"] | Annotated[int, Field(strict=True, gt=0)]
Cpus = CpuCount | CpuPlaces
"""A number of CPUs, taken from the first on, or CPUs at given positions: `2`, `0-3,6`."""


class SplitCpus(Frozen):
    """CPUs of one host for servers and for the load tool."""

    servers: CpuPlaces
    load: CpuPlaces
