"""Tuning profiles: named kernel settings, from `configs/tuning/` or from a file in the scenario's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.document import Document, SourceMap, read_document
from benchkit.errors import InputError, suggestion
from benchkit.files import shipped
from benchkit.models.base import Frozen, Level, Levels, level_text
from benchkit.scenario.model import NO_PROFILE, Scenario, TuningUse
from benchkit.validation import Location

SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+$")]
SysctlValue = (
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+( [\w.-]+)*$")]
)


class Limits(Frozen):
    """Limits of the processes that benchkit starts on the host; other processes keep theirs."""

    nofile: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="open files; absent: the limit of the host", examples=[65536]
    )


class Tuning(Frozen):
    """Kernel settings by their sysctl names, and limits of processes."""

    description: str = Field(
        description="what the settings are for, and their source", examples=["More connections at once"]
    )
    sysctl: Mapping[SysctlKey, SysctlValue] = Field(
        default_factory=dict, description="kernel settings by name", examples=[{"net.core.somaxconn": 4096}]
    )
    limits: Limits = Field(
        default=Limits(), description="limits of the processes that benchkit starts", examples=[{"nofile": 65536}]
    )


@dataclass(frozen=True)
class UsedTuning:
    """A tuning profile as a scenario uses it."""

    use: TuningUse
    profile: Tuning
    source: SourceMap
    """Lines of the profile's own file, for messages."""
    levels: Levels = field(default_factory=dict)
    """Level of the cells that it is applied for; empty: it holds for the whole run."""


def read_tunings(scenario: Scenario, document: Document) -> tuple[UsedTuning, ...]:
    """Read the profiles that a scenario uses, those of the levels of its factors too.

    Raises InputError, naming file, line and field, for profiles and roles that do not exist and for invalid profiles.
    """
    profiles: list[UsedTuning] = []
    faults: list[str] = []
    for i, use in enumerate(scenario.tuning):
        for location, name, levels in _profile_names(i, use, scenario):
            try:
                profiles.append(_read_profile(location, name, use, levels, document))
            except InputError as error:
                faults.append(str(error))
        faults += [
            document.fault(("tuning", i, "roles"), f"no role {role!r}; {suggestion(role, scenario.roles)}")
            for role in use.roles
            if role not in scenario.roles
        ]
    if faults:
        raise InputError("\n".join(faults))
    return tuple(profiles)


def _profile_names(i: int, use: TuningUse, scenario: Scenario) -> Iterator[tuple[Location, Level, Levels]]:
    """Yield the profiles of a use, each with the location of its name and the level that it is applied for."""
    if use.factor is None:
        yield ("tuning", i, "profile"), use.profile, {}
        return
    for j, level in enumerate(scenario.factors[use.factor]):
        if level != NO_PROFILE:
            yield ("factors", use.factor, j), level, {use.factor: level}


def _read_profile(location: Location, name: Level, use: TuningUse, levels: Levels, document: Document) -> UsedTuning:
    folder = shipped("configs") / "tuning"
    if isinstance(name, str) and name.endswith((".yaml", ".yml")):
        path = Path(document.source.origin(location).source).parent / name
        if not path.is_file():
            raise InputError(document.fault(location, f"no file {path}"))
    else:
        names = sorted(file.stem for file in folder.glob("*.yaml"))
        if name not in names:
            message = f"no tuning profile {level_text(name)!r}; {suggestion(level_text(name), names)}"
            raise InputError(document.fault(location, message), hint="name a file of your own with its suffix .yaml")
        path = folder / f"{name}.yaml"
    profile = read_document(path)
    return UsedTuning(use, profile.validated(Tuning), profile.source, levels)
