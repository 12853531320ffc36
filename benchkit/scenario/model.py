"""The fields of a scenario file, at one scale.

Services and load are mappings here, because their values may refer to factors. Each cell has them typed, with the levels
filled in: see `benchkit.scenario.cells`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, PositiveInt, StringConstraints

from benchkit.models.base import Frozen
from benchkit.models.claims import Claim
from benchkit.models.cpus import Cpus
from benchkit.models.design import Design, Until
from benchkit.models.levels import Level, Levels, Name
from benchkit.models.published import Published
from benchkit.models.response_differences import Difference
from benchkit.models.thresholds import Thresholds
from benchkit.scenario.profile_pass import ProfilePass
from benchkit.scenario.telemetry_options import Telemetry, Watching

LOAD_ROLE = "load"
"""The role of the hosts that generate the load."""


class Role(Frozen):
    """Requirements on the hosts in a role."""

    hosts: PositiveInt = Field(default=1, description="smallest number of hosts in the role")
    cpus: Cpus = Field(
        default="all",
        description="CPUs of the host that the role uses: the first n, or those at these positions (`2-3`); `all`: its "
        "affinity mask",
    )
    quota: Annotated[float, Field(ge=0.1, le=4096)] | None = Field(
        default=None,
        description="CPU time, in CPUs, that the services of the role on a host share, limited by a control group where the "
        "host allows one; for servers that a generator could not saturate otherwise",
    )


class Stack(Frozen):
    """The services of a cell and how they connect; `entry` names the service that the load goes to."""

    entry: Name
    services: Mapping[Name, Mapping[str, Any]] = Field(min_length=1)


class TuningUse(Frozen):
    """A tuning profile and the roles it is applied to: one of `configs/tuning/`, or a file in the scenario's folder."""

    profile: Annotated[str, StringConstraints(strict=True, pattern=r"^([a-z][a-z0-9_-]{0,63}|[^\x00-\x1f]+\.ya?ml)$")]
    roles: tuple[Name, ...] = ("sut",)
    required: bool = Field(default=False, description="stop the run if a setting cannot be applied")


class Scenario(Frozen):
    """One scenario at one scale: what is compared, on which hosts, under which load, how often."""

    name: Name
    title: str
    question: str = Field(description="the question that the run answers, for readers")
    source: str | None = Field(default=None, description="published study that the scenario repeats")
    roles: Mapping[Name, Role] = Field(default_factory=lambda: {"sut": Role(), "load": Role()})
    stacks: Mapping[Name, Stack] = Field(min_length=1)
    factors: Mapping[Name, Annotated[tuple[Level, ...], Field(min_length=1)]] = Field(default_factory=dict)
    cells: tuple[Levels, ...] | None = Field(default=None, description="these combinations instead of all of them")
    exclude: tuple[Levels, ...] = Field(
        default=(), description="combinations to leave out; some of the factors suffice"
    )
    load: Mapping[str, Any]
    tools: Mapping[Name, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="fields that override those of `load` for the tool of that name, since tools support different fields",
    )
    tuning: tuple[TuningUse, ...] = ()
    baseline: Levels | None = Field(default=None, description="cell that ratios are taken to; absent: the first cell")
    service: Levels | None = Field(
        default=None,
        description="levels that identify the cell whose stack `service up` starts; absent: the baseline",
    )
    differs: tuple[Difference, ...] = Field(
        default=(),
        description="intended differences between the responses of cells; all else must be equal for a fair ratio",
    )
    design: Design = "blocks"
    control: tuple[Levels, ...] = Field(
        default=(), description="cells that run a second time under another name, which measures the noise of the run"
    )
    blocks: PositiveInt = Field(
        le=10_000, description="repetitions of every cell; the maximum if `until` may end the run early"
    )
    until: Until | None = None
    profile: ProfilePass | None = Field(default=None, description="profiled trials after the measured ones")
    telemetry: Telemetry = Field(
        default_factory=Watching, validate_default=False, description="host telemetry during trials, or `off`"
    )
    seed: int = 1
    claims: tuple[Claim, ...] = ()
    published: tuple[Published, ...] = Field(default=(), description="figures that the study printed, by cell")
    thresholds: Thresholds = Field(
        default_factory=Thresholds, description="limits beyond which checks make a trial suspect or invalid"
    )

    def has_control(self, levels: Levels) -> bool:
        """Return whether the cell with these levels runs a second time as its own control."""
        return any(wanted.items() <= levels.items() for wanted in self.control)
