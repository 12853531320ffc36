"""The manifest of a run, as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

from benchkit.models.base import NAME_FORM, Name, Stored
from benchkit.models.facts import RecordedFacts
from benchkit.validation import is_valid_name

SCHEMA_VERSION = 1
"""Version of the store's layout and tables; a newer one is refused, an older one is read."""

RunId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,127}$")]
"""Id of a run. It becomes part of paths, so every id that is read from a store is validated as well."""
TrialId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,199}$")]
"""Id of a trial; the name of the folder with its raw files."""
RawFileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@+:-]{0,254}$")]
"""Name of a raw file within the folder of its trial."""


def _require_name(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check the name of a stored scenario as a file's is checked: it becomes part of paths."""
    name = scenario.get("name")
    if not isinstance(name, str) or not is_valid_name(name, Name):
        raise ValueError(f"name: found {name!r}; allowed: {NAME_FORM}")
    return scenario


StoredScenario = Annotated[Mapping[str, Any], AfterValidator(_require_name)]
"""A scenario as run, with a valid name."""

Tag = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,63}$")]
"""Name of a tag of a run."""
TagValue = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]
"""Value of a tag: one line."""

CALIBRATION = "-calibration"
"""End of the names of scenarios whose runs only show whether a server runs, as `bisect` makes them."""

PassKind = Literal["profile", "trace"]
"""Kind of the observed trials of a pass after the measured ones."""
TrialKind = Literal["measure", "control", "held", PassKind, "calibrate", "probe"]
"""Kind of a trial. `held`: at a held rate, for latencies. `calibrate`: a load curve, or a capacity, from which
connections and target rates of the others follow. `probe`:
at a rate that a search for a capacity tries.
"""
RunStatus = Literal["running", "done", "failed", "interrupted"]


class BuildRecord(Stored):
    """The output of a build for a service of a cell, or the image that it runs."""

    ref: str | None = Field(default=None, description="ref of its sources; None: the files as they were")
    commit: str | None = Field(default=None, description="commit of that ref; of `worktree`, the one below it")
    diff_sha256: str | None = Field(default=None, description="hash of what `worktree` changed; None: another ref")
    image: str | None = Field(default=None, description="image that the scenario names; None: another kind of build")
    output_sha256: str = Field(description="hash of names, modes and contents of what was built; of an image its id")


class CodeState(Stored):
    """The version-control state of the files that a run was started from."""

    commit: str
    subject: str = Field(default="", description="first line of the commit's message")
    is_modified: bool = Field(default=False, description="true: tracked files differed from the commit")

    @property
    def short(self) -> str:
        """Beginning of the commit, with a plus sign where files differed from it."""
        return self.commit[:12] + "+" * self.is_modified


class CellRecord(Stored):
    """One combination of levels, as planned for the hosts of this run."""

    cell_id: str
    levels: Mapping[str, str | int | float | bool]
    unsupported: str | None = Field(default=None, description="why these hosts cannot run the cell")
    builds: Mapping[str, BuildRecord] = Field(default_factory=dict, description="its built services, by name")
    files: Mapping[str, str] = Field(default_factory=dict, description="SHA-256 of the controller's files that it uses")
    same_as: str | None = Field(default=None, description="earlier cell that is equal, in builds byte for byte")
    external: Mapping[str, str] = Field(
        default_factory=dict, description="URLs of services that others deploy, by name"
    )
    sysctls: Mapping[str, Mapping[str, str]] = Field(
        default_factory=dict, description="kernel settings for its trials alone, by host and name"
    )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for readers of its figures: about an equal cell, and about services that are not watched."""
        equal = (
            f"{self.cell_id} and {self.same_as} have the same server, byte for byte: their comparison is A/A, and any "
            "difference is noise."
        )
        unknown = (
            f"{self.cell_id}: {name} ({url}) is external: neither started afresh nor watched, and what needs its host is "
            "not checked."
            for name, url in self.external.items()
        )
        return (*([equal] if self.same_as is not None else []), *unknown)

    @property
    def is_unwatched(self) -> bool:
        """True if one of its services is external, so that its processes are not watched."""
        return bool(self.external)


class HostRecord(Stored):
    """A host of the run with its facts at the start; no secrets, no key paths."""

    name: str
    roles: tuple[str, ...]
    facts: RecordedFacts


class ControllerRecord(Stored):
    """The process that runs the trials, and its machine."""

    machine: str | None = Field(default=None, description="boot id of its machine; None: unknown")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on during trials; empty: unknown")


class Manifest(Stored):
    """The content of `manifest.json`: what was run, with which settings, on which hosts."""

    schema_version: int = SCHEMA_VERSION
    run_id: RunId
    scenario: StoredScenario = Field(description="scenario as run, with scale and --set applied")
    source: str = Field(default="", description="file of the scenario; relative paths in it start from its folder")
    scale: str
    settings: tuple[str, ...] = Field(default=(), description="overrides by `--set`")
    seed: int | None = Field(description="seed of the random order of trials; None: of an imported run, not known")
    blocks: int
    cells: tuple[CellRecord, ...]
    hosts: tuple[HostRecord, ...] = Field(description="empty: of an imported run, not known")
    versions: Mapping[str, str] = Field(description="of benchkit, Python, tools, backends and nginx, by name")
    controller: ControllerRecord | None = None
    thresholds: Mapping[str, float] = Field(default_factory=dict, description="thresholds of the checks of its trials")
    tags: Mapping[Tag, TagValue] = Field(default_factory=dict, description="what its user noted with `--tag`, by name")
    code: CodeState | None = Field(default=None, description="state of the git checkout that it was started from")
    is_imported: bool = Field(default=False, description="true: made of outputs that were measured elsewhere")
    notes: tuple[str, ...] = Field(default=(), description="notes of the plan: not isolated, not applied, …")
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    status: RunStatus = "running"

    @property
    def scenario_name(self) -> str:
        """Name of the scenario."""
        return str(self.scenario["name"])

    @property
    def is_calibration(self) -> bool:
        """True for a run that only finds the settings of another one."""
        return self.scenario_name.endswith(CALIBRATION)
