"""The base of all models, and the types that they share: names, factors, levels and CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StringConstraints


class Frozen(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Stored(Frozen):
    """A part of a stored run; fields that this version does not know are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=True)


NAME_FORM = "up to 64 lower-case letters, digits, dashes and underscores, beginning with a letter"
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""A name given in a scenario; it becomes part of paths, ids and column names."""

LevelText = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:/@-]{0,63}$")]
Level = StrictBool | StrictInt | StrictFloat | LevelText
Levels = Mapping[Name, Level]

STACK = "stack"
"""The factor whose levels are the names of the scenario's stacks."""


def cell_id(levels: Levels) -> str:
    """Return the name of a cell, as people type it: `stack=go,connections=64`."""
    return ",".join(f"{name}={level_text(level)}" for name, level in levels.items()) or "only"


def level_text(level: Level) -> str:
    """Return a level as YAML writes it (`true`, not `True`)."""
    return str(level).lower() if isinstance(level, bool) else str(level)


LevelTexts = Mapping[str, str]
"""Levels as text, of some or all factors."""


def level_texts(levels: Mapping[str, Any]) -> LevelTexts:
    """Return levels as text, as cell ids and tables have them."""
    return {name: level_text(level) for name, level in levels.items()}


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
