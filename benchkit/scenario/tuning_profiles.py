"""Tuning profiles: named settings, as `configs/tuning/` or a file beside the scenario has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.document import Document, read_document
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.resources import shipped
from benchkit.scenario.model import Scenario, TuningUse

SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+$")]
SysctlValue = (
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+( [\w.-]+)*$")]
)


class Limits(Frozen):
    """Limits of the processes that benchkit starts on the host; nobody else's change."""

    nofile: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="open files; absent: as many as the host allows"
    )


class TuningProfile(Frozen):
    """Kernel settings by their sysctl names, and limits of processes."""

    description: str
    sysctl: Mapping[SysctlKey, SysctlValue] = Field(default_factory=dict)
    limits: Limits = Limits()


@dataclass(frozen=True)
class UsedProfile:
    """A profile as a scenario uses it."""

    use: TuningUse
    profile: TuningProfile
    document: Document
    """The profile's own file, for messages."""


def profiles_of(scenario: Scenario, document: Document) -> tuple[UsedProfile, ...]:
    """The profiles that a scenario uses. Raises InputError naming file, line and field of what is wrong with one."""
    return tuple(_read(i, use, document) for i, use in enumerate(scenario.tuning))


def check_tuning(scenario: Scenario, document: Document) -> None:
    """Raise InputError, naming file, line and field, for a profile or a role that does not exist."""
    faults = []
    for i, use in enumerate(scenario.tuning):
        try:
            _read(i, use, document)
        except InputError as error:
            faults.append(str(error))
        faults += [
            document.fault(("tuning", i, "roles"), f"no role {role!r}; {suggestion(role, scenario.roles)}")
            for role in use.roles
            if role not in scenario.roles
        ]
    if faults:
        raise InputError("\n".join(faults))


def _read(i: int, use: TuningUse, document: Document) -> UsedProfile:
    place = ("tuning", i, "profile")
    if use.profile.endswith((".yaml", ".yml")):
        path = Path(document.origin(place).source).parent / use.profile
        if not path.is_file():
            raise InputError(document.fault(place, f"no file {path}"))
    else:
        folder = shipped("configs") / "tuning"
        names = sorted(file.stem for file in folder.glob("*.yaml"))
        if use.profile not in names:
            said = f"no tuning profile {use.profile!r}; {suggestion(use.profile, names)}"
            raise InputError(document.fault(place, said), hint="a file of your own is named with its .yaml")
        path = folder / f"{use.profile}.yaml"
    written = read_document(path)
    return UsedProfile(use, written.validated(TuningProfile), written)
