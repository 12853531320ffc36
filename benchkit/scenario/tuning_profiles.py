"""Tuning profiles: named kernel settings, from `configs/tuning/` or from a file in the scenario's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.document import Document, SourceMap, read_document
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.resources import shipped
from benchkit.scenario.model import Scenario, TuningUse

SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+$")]
SysctlValue = (
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+( [\w.-]+)*$")]
)


class Limits(Frozen):
    """Limits of the processes that benchkit starts on the host; other processes keep theirs."""

    nofile: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="open files; absent: the limit of the host", examples=[65536]
    )


class TuningProfile(Frozen):
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
class UsedProfile:
    """A tuning profile as a scenario uses it."""

    use: TuningUse
    profile: TuningProfile
    source: SourceMap
    """Lines of the profile's own file, for messages."""


def tuning_profiles(scenario: Scenario, document: Document) -> tuple[UsedProfile, ...]:
    """Read the profiles that a scenario uses.

    Raises InputError, naming file, line and field, for profiles and roles that do not exist and for invalid profiles.
    """
    profiles: list[UsedProfile] = []
    faults: list[str] = []
    for i, use in enumerate(scenario.tuning):
        try:
            profiles.append(_read_profile(i, use, document))
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


def _read_profile(i: int, use: TuningUse, document: Document) -> UsedProfile:
    location = ("tuning", i, "profile")
    if use.profile.endswith((".yaml", ".yml")):
        path = Path(document.source.origin(location).source).parent / use.profile
        if not path.is_file():
            raise InputError(document.fault(location, f"no file {path}"))
    else:
        folder = shipped("configs") / "tuning"
        names = sorted(file.stem for file in folder.glob("*.yaml"))
        if use.profile not in names:
            message = f"no tuning profile {use.profile!r}; {suggestion(use.profile, names)}"
            raise InputError(document.fault(location, message), hint="name a file of your own with its suffix .yaml")
        path = folder / f"{use.profile}.yaml"
    profile = read_document(path)
    return UsedProfile(use, profile.validated(TuningProfile), profile.source)
