"""Names, factors and levels, as scenario files write them and tables store them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import StrictBool, StrictFloat, StrictInt, StringConstraints

NAME_FORM = "up to 64 lower-case letters, digits, dashes and underscores, a letter first"
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""A name given in a scenario; it becomes part of paths, ids and column names."""

LevelText = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:/@-]{0,63}$")]
Level = StrictBool | StrictInt | StrictFloat | LevelText
Levels = Mapping[Name, Level]

STACK = "stack"
"""The factor whose levels are the names of the scenario's stacks."""
TESTBED = "testbed"
"""The factor whose levels are the names of the testbeds, where a scenario keeps them apart."""


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
