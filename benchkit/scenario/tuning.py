"""Tuning profiles: named kernel settings, as `configs/tuning/` or a scenario's own file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.document import Document, read_document
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.resources import shipped
from benchkit.scenario.model import Scenario

SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+$")]
SysctlValue = (
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+( [\w.-]+)*$")]
)


class TuningProfile(Frozen):
    """Kernel settings by their sysctl names."""

    description: str
    sysctl: Mapping[SysctlKey, SysctlValue]


def read_profile(name: str) -> TuningProfile:
    """The shipped profile of that name. Raises InputError naming those there are."""
    folder = shipped("configs") / "tuning"
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in names:
        raise InputError(f"no tuning profile {name!r}", why=suggestion(name, names))
    return read_document(folder / f"{name}.yaml").validated(TuningProfile)


def check_tuning(scenario: Scenario, document: Document) -> None:
    """Raise InputError, naming file, line and field, for a profile or a role that does not exist."""
    faults = []
    for i, use in enumerate(scenario.tuning):
        try:
            read_profile(use.profile)
        except InputError as error:
            faults.append(document.fault(("tuning", i, "profile"), f"{error.what}; {error.why}"))
        faults += [
            document.fault(("tuning", i, "roles"), f"no role {role!r}; {suggestion(role, scenario.roles)}")
            for role in use.roles
            if role not in scenario.roles
        ]
    if faults:
        raise InputError("\n".join(faults))
