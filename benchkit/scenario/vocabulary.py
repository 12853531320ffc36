"""The words of scenario files: names, factors and their levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import StrictBool, StrictFloat, StrictInt, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""A name that scenarios give: it becomes part of paths, ids and column names."""

LevelText = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:/@-]{0,63}$")]
Level = StrictBool | StrictInt | StrictFloat | LevelText
Levels = Mapping[Name, Level]
