"""What a scenario file says, at one scale.

Services and load stay mappings here: their fields belong to the backend and the tool they name, which check them
cell by cell once the levels are filled in (`benchkit.services`, `benchkit.load`).
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


class Role(Frozen):
    """What a scenario needs of the hosts in a role."""

    hosts: PositiveInt = Field(default=1, description="at least so many hosts of the role")
    cpus: Cpus = Field(
        default="all",
        description="CPUs of the host that the role uses: the first n, or those at these places (`2-3`); `all`: its "
        "affinity mask",
    )
    quota: Annotated[float, Field(ge=0.1, le=4096)] | None = Field(
        default=None,
        description="CPUs' worth of time that the services of the role on a host get together, by a control group where "
        "there can be one; for servers that a generator could not fill otherwise",
    )


class Stack(Frozen):
    """The services of a cell and how they connect; `entry` is the one that the load goes to."""

    entry: Name
    services: Mapping[Name, Mapping[str, Any]] = Field(min_length=1)


class TuningUse(Frozen):
    """A tuning profile and the roles it is applied to: one of `configs/tuning/`, or a file beside the scenario."""

    profile: Annotated[str, StringConstraints(strict=True, pattern=r"^([a-z][a-z0-9_-]{0,63}|[^\x00-\x1f]+\.ya?ml)$")]
    roles: tuple[Name, ...] = ("sut",)
    required: bool = Field(default=False, description="whether a setting that cannot be applied stops the run")


class Scenario(Frozen):
    """One experiment at one scale: what is compared, on what, under which load, how often."""

    name: Name
    title: str
    question: str = Field(description="what the run answers, for people")
    source: str | None = Field(default=None, description="the published study that it repeats")
    roles: Mapping[Name, Role] = Field(default_factory=lambda: {"sut": Role(), "load": Role()})
    stacks: Mapping[Name, Stack] = Field(min_length=1)
    factors: Mapping[Name, Annotated[tuple[Level, ...], Field(min_length=1)]] = Field(default_factory=dict)
    cells: tuple[Levels, ...] | None = Field(default=None, description="these combinations instead of all of them")
    exclude: tuple[Levels, ...] = Field(default=(), description="combinations left out; a part of the factors will do")
    load: Mapping[str, Any]
    tools: Mapping[Name, Mapping[str, Any]] = Field(
        default_factory=dict, description="fields laid over `load` where that names the tool: what tools honour differs"
    )
    tuning: tuple[TuningUse, ...] = ()
    baseline: Levels | None = Field(default=None, description="the cell that ratios are taken to; the first if absent")
    service: Levels | None = Field(
        default=None,
        description="the cell whose stack `service up` keeps up, by as many levels as tell it; the baseline if absent",
    )
    differs: tuple[Difference, ...] = Field(
        default=(), description="in what the answers of cells may differ; else all must be alike for a fair ratio"
    )
    design: Design = "blocks"
    control: tuple[Levels, ...] = Field(
        default=(), description="cells that run a second time under another name, which shows the run's own noise"
    )
    blocks: PositiveInt = Field(description="repetitions; at most so many where `until` may end the run before")
    until: Until | None = None
    profile: ProfilePass | None = Field(default=None, description="a pass of profiled trials after the measured ones")
    telemetry: Telemetry = Field(
        default_factory=Watching, validate_default=False, description="how hosts are watched during a trial, or `off`"
    )
    seed: int = 1
    claims: tuple[Claim, ...] = ()
    published: tuple[Published, ...] = Field(default=(), description="what the study printed, cell by cell")
    thresholds: Thresholds = Field(default_factory=Thresholds, description="from where on checks doubt a trial")
