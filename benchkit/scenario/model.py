"""The fields of a scenario file, at one scale.

Services and load are mappings here, because their values may refer to factors. Each cell has them typed, with the
levels filled in: see `benchkit.scenario.cells`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, StringConstraints

from benchkit.models.base import Cpus, Frozen, Level, Levels, Name
from benchkit.models.claims import AskedRatio, Claim, Published
from benchkit.models.design import SLICE_S, Design, Difference, StopCondition
from benchkit.models.run import PassKind
from benchkit.models.thresholds import Thresholds
from benchkit.scenario.trial_order import ObservationPass, ProfilePass, TracePass

OFF = "off"

LOAD_ROLE = "load"
"""The role of the hosts that generate the load."""
REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)\Z")
"""A value `$name` stands for the level of factor `name`; `$$name` for the text `$name`."""
NO_TUNING = "none"
"""Level of a factor of tuning files for cells that have only the run's tuning."""


class TelemetryOptions(Frozen):
    """Options of host telemetry during a trial."""

    interval_s: float = Field(default=1.0, ge=0.1, le=60, description="seconds from one sample to the next")


def _off_is_none(value: object) -> object:
    """Map `off` to None; the word is text in YAML 1.2 and false in YAML 1.1, which some editors still write."""
    off = isinstance(value, str) and value.lower() == OFF
    return None if off or value is False else value


TelemetryField = Annotated[
    TelemetryOptions | None,
    BeforeValidator(_off_is_none, json_schema_input_type=Literal["off", False] | TelemetryOptions | None),
]
"""`off` (None here), or the fields of `TelemetryOptions`."""


class Role(Frozen):
    """Requirements on the hosts in a role."""

    hosts: PositiveInt = Field(default=1, le=1000, description="smallest number of hosts in the role")
    cpus: Cpus = Field(
        default="all",
        description="CPUs of the host that the role uses: the first n, or those at these positions (`2-3`); `all`: its "
        "affinity mask",
    )
    quota: Annotated[float, Field(ge=0.1, le=4096)] | None = Field(
        default=None,
        description="CPU time, in CPUs, that the services of the role on a host share, where the host allows a control "
        "group. For servers that a generator could not saturate otherwise",
        examples=[1.5],
    )


class Stack(Frozen):
    """The services of a cell and how they connect; `entry` names the service that the load goes to."""

    entry: Name = Field(description="name of the service that the load goes to", examples=["app"])
    services: Mapping[Name, Mapping[str, Any]] = Field(
        min_length=1,
        description="options of each service, by name",
        examples=[{"app": {"backend": "nethttp", "listen": 8080}}],
    )


class TuningUse(Frozen):
    """A tuning file and the roles it is applied to: one of `configs/tuning/`, or a file in the scenario's folder."""

    profile: Annotated[
        str, StringConstraints(strict=True, pattern=r"^(\$?[a-z][a-z0-9_-]{0,63}|[^\x00-\x1f]+\.ya?ml)$")
    ] = Field(
        description="name of a shipped tuning, or a file of your own: see `benchkit fields tuning-file`. `$name`: the "
        "level of a factor, applied for the trials of its cells (`none`: no tuning file)",
        examples=["nginx-vs-go"],
    )
    roles: tuple[Name, ...] = Field(default=("sut",), description="roles whose hosts are tuned")
    required: bool = Field(default=False, description="stop the run if a setting cannot be applied")

    @property
    def factor(self) -> str | None:
        """Factor whose levels are the tuning files; None: the file is the same for all cells."""
        match = REFERENCE.match(self.profile)
        return match[1] if match else None


class Scenario(Frozen):
    """One scenario at one scale: what is compared, on which hosts, under which load, how often."""

    name: Name = Field(description="name of the scenario, part of paths and run ids", examples=["mine"])
    title: str = Field(description="title of its reports", examples=["Threads of a Go server"])
    question: str = Field(
        description="the question that the run answers, for readers",
        examples=["What do more threads bring a net/http server?"],
    )
    answer: AskedRatio | None = Field(
        default=None,
        description="the ratio that answers the question, shown first in reports; absent: all cells relative to the "
        "baseline, in rps, or with a fixed rate in CPU time per request",
        examples=[{"of": {"stack": "nginx-go"}, "to": {"stack": "go"}, "metric": "server_cpu_s_per_request"}],
    )
    source: str | None = Field(
        default=None, description="published study that the scenario repeats", examples=["https://example.org/study"]
    )
    roles: Mapping[Name, Role] = Field(
        default_factory=lambda: {"sut": Role(), "load": Role()},
        description="the hosts that the scenario needs, by role",
        examples=[{"sut": {"cpus": "0-3"}, "load": {"hosts": 2}}],
    )
    stacks: Mapping[Name, Stack] = Field(
        min_length=1,
        description="the services of each stack, by name; a cell has one of them, chosen by the factor `stack`",
        examples=[{"go": {"entry": "app", "services": {"app": {"backend": "nethttp", "listen": 8080}}}}],
    )
    factors: Mapping[Name, Annotated[tuple[Level, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="what is varied: the levels of each factor; `$name` stands for the level in services and load",
        examples=[{"threads": [1, "all"]}],
    )
    cells: tuple[Levels, ...] | None = Field(
        default=None,
        description="these combinations instead of all of them",
        examples=[[{"stack": "go", "threads": 1}]],
    )
    exclude: tuple[Levels, ...] = Field(
        default=(),
        description="combinations to exclude; naming some of the factors is enough",
        examples=[[{"stack": "nginx-go", "threads": 1}]],
    )
    load: Mapping[str, Any] = Field(
        description="load of a cell: see `benchkit fields load`",
        examples=[{"tool": "wrk", "connections": 64, "duration_s": 5}],
    )
    tools: Mapping[Name, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="fields that override `load` for the tool of that name, since tools support different fields",
        examples=[{"hey": {"duration_s": None, "requests": 10000}}],
    )
    tuning: tuple[TuningUse, ...] = Field(
        default=(),
        description="kernel settings for the hosts of roles, restored after the run",
        examples=[[{"profile": "nginx-vs-go", "roles": ["sut"]}]],
    )
    baseline: Levels | None = Field(
        default=None, description="cell that ratios are taken to; absent: the first cell", examples=[{"stack": "go"}]
    )
    service: Levels | None = Field(
        default=None,
        description="levels that identify the cell whose stack `service up` starts; absent: the baseline",
        examples=[{"stack": "go"}],
    )
    differs: tuple[Difference, ...] = Field(
        default=(),
        description="intended differences between the responses of cells; all else must be equal for a fair ratio",
        examples=[[{"what": ["header_bytes"], "why": "nginx sends headers of its own"}]],
    )
    design: Design = Field(
        default="blocks",
        description="order of trials: every cell once per block (blocks), cell after cell (sequential), "
        "or all cells up at once with load in turns (sliced)",
    )
    slice_s: Annotated[float, Field(ge=0.05, le=10)] = Field(
        default=SLICE_S,
        description="length of a turn in a sliced block, in seconds; `duration_s` of the load is a cell's total in the block",
    )
    control: tuple[Levels, ...] = Field(
        default=(),
        description="cells that run a second time under another name, which measures the noise of the run",
        examples=[[{"stack": "go"}]],
    )
    blocks: PositiveInt = Field(
        le=10_000, description="repetitions of every cell; the maximum if `until` may end the run early", examples=[10]
    )
    until: StopCondition | None = Field(
        default=None,
        description="condition under which the run ends before its last block; absent: it never does",
        examples=[{"precision": 0.05}],
    )
    profile: ProfilePass | None = Field(
        default=None, description="profiled trials after the measured ones", examples=[{"blocks": 2, "duration_s": 10}]
    )
    trace: TracePass | None = Field(
        default=None,
        description="traced trials after the measured and the profiled ones: system calls, and what threads wait for",
        examples=[{"blocks": 2, "duration_s": 10}],
    )
    telemetry: TelemetryField = Field(
        default_factory=TelemetryOptions, validate_default=False, description="host telemetry during trials, or `off`"
    )
    seed: int = Field(default=1, description="seed of the random order of trials")
    claims: tuple[Claim, ...] = Field(
        default=(),
        description="statements of a study, tested by the run",
        examples=[
            [
                {
                    "text": "nginx costs a part of the rate",
                    "ratio": {"of": {"stack": "nginx-go"}, "to": {"stack": "go"}},
                    "at_most": 0.9,
                }
            ]
        ],
    )
    published: tuple[Published, ...] = Field(
        default=(),
        description="figures that the study printed, by cell",
        examples=[[{"cell": {"stack": "go"}, "figures": {"rps": 128403}}]],
    )
    thresholds: Thresholds = Field(
        default_factory=Thresholds, description="limits beyond which checks make a trial suspect or invalid"
    )

    @property
    def service_names(self) -> tuple[str, ...]:
        """Names of the services of all stacks."""
        return tuple(dict.fromkeys(name for stack in self.stacks.values() for name in stack.services))

    @property
    def passes(self) -> Mapping[PassKind, ObservationPass]:
        """Passes after the measured trials, by the kind of their observed trials."""
        options: Mapping[PassKind, ObservationPass | None] = {"profile": self.profile, "trace": self.trace}
        return {kind: each for kind, each in options.items() if each is not None}

    def has_control(self, levels: Levels) -> bool:
        """Return whether the cell with these levels runs a second time as its own control."""
        return any(wanted.items() <= levels.items() for wanted in self.control)
