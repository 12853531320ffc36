"""CPUs as a scenario names them: by their places among those that a host or a role has."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_LIST = r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"


def cpu_places(text: str) -> tuple[int, ...]:
    """The places in a list as taskset(1) takes it: `0-2,6` → (0, 1, 2, 6). Raises ValueError for none, or one twice."""
    places: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        span = range(int(first), int(last if dash else first) + 1)
        if not span:
            raise ValueError(f"found {text!r}: {part} goes backwards")
        places += span
    if len(set(places)) < len(places):
        raise ValueError(f"found {text!r}: a CPU stands twice")
    return tuple(places)


def _checked(text: str) -> str:
    cpu_places(text)
    return text


CpuPlaces = Annotated[str, StringConstraints(strict=True, pattern=_LIST), AfterValidator(_checked)]
"""Places from 0 among the CPUs that there are, whatever their numbers: `0-3,6`."""
