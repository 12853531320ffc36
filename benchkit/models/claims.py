"""Statements of a study: claims as expected ratios of cells, with requirements on the hosts, and published figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from benchkit.models.base import Frozen, Levels, Name
from benchkit.models.metrics import metric_column


class CellPair(Frozen):
    """The two cells of a ratio, `of` divided by `to`, identified by some of their levels.

    `of` may match several cells. Each is then divided by the cell that differs from it only in the levels of `to`, and
    the claim is about all ratios.
    """

    of: Levels = Field(min_length=1, description="levels of the numerator's cells", examples=[{"stack": "nginx-go"}])
    to: Levels = Field(min_length=1, description="levels of the denominator's cell", examples=[{"stack": "go"}])


MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_./ -]{0,63}$"), AfterValidator(metric_column)]


class AskedRatio(CellPair):
    """The ratio that answers a scenario's question: the first sentence of its reports is about it."""

    metric: MetricName = Field(
        default="rps",
        description="any metric that a claim may have",
        examples=["server_cpu_s_per_request", "profile_share/waiting"],
    )


class Need(Frozen):
    """Requirements on the hosts of a role for a claim to be testable."""

    cpus: PositiveInt | None = Field(default=None, description="CPUs that the role may use", examples=[4])
    link_bps: PositiveFloat | None = Field(default=None, description="lowest rate of the link", examples=[1000000000])
    link_at_most_bps: PositiveFloat | None = Field(
        default=None, description="highest rate of the link, for results of a slow one", examples=[200000000]
    )


class Claim(Frozen):
    """A statement of a study and the ratio that it expects.

    The expectation is one of `at_least`, `at_most`, `between`, or `about` a value `within` a share of it.
    """

    text: str = Field(
        min_length=1,
        description="the statement in a sentence",
        examples=["nginx in front of a Go server costs a part of its rate"],
    )
    ratio: CellPair = Field(
        description="the two compared cells, `of` divided by `to`",
        examples=[{"of": {"stack": "nginx-go"}, "to": {"stack": "go"}}],
    )
    relative_to: CellPair | None = Field(
        default=None,
        description="two further cells, by whose ratio `ratio` is divided within a block",
        examples=[{"of": {"stack": "nginx-go"}, "to": {"stack": "go"}}],
    )
    whose: Literal["author", "ours"] = Field(
        default="ours", description="the author of the study, or the writer of the scenario"
    )
    metric: MetricName = Field(
        default="rps",
        description="column of `trials` that is compared. Or a share of the profiled trials' CPU samples: "
        "`profile_share/` with a category (`waiting`: scheduler, netpoll and epoll), or `profile_cumulative/` with "
        "mcall, schedule, findrunnable, netpoll or epollwait. Or `goroutines`, the median of a trial. Or the CPU time "
        "per request of a service, `cpu/front`, or of a part of it, `cpu/front/read-write` (a category, user-code, kernel)",
        examples=["server_cpu_s_per_request", "profile_share/waiting"],
    )
    held: bool = Field(default=False, description="compare the trials at the held rate (`rate: half` of the load)")
    at_least: PositiveFloat | None = Field(
        default=None, description="smallest ratio; or at_most, between, about", examples=[2]
    )
    at_most: PositiveFloat | None = Field(default=None, description="largest ratio that is expected", examples=[0.9])
    between: tuple[PositiveFloat, PositiveFloat] | None = Field(
        default=None, description="smallest and largest ratio", examples=[[0.5, 0.9]]
    )
    about: PositiveFloat | None = Field(default=None, description="expected ratio, with `within`", examples=[1.2])
    within: float | None = Field(
        default=None, gt=0, lt=1, description="share of `about`: 0.15 allows 15 % to either side", examples=[0.15]
    )
    published: PositiveFloat | None = Field(default=None, description="ratio that the study printed", examples=[0.58])
    needs: Mapping[Name, Need] = Field(
        default_factory=dict, description="requirements by role", examples=[{"sut": {"cpus": 4}}]
    )

    @model_validator(mode="after")
    def _one_expectation(self) -> Self:
        given = [name for name in ("at_least", "at_most", "between", "about") if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ValueError(f"expects one of at_least, at_most, between, about; found {found}")
        if (self.about is None) != (self.within is None):
            raise ValueError("about and within need each other: about a value, within a share of it")
        if self.between is not None and self.between[0] >= self.between[1]:
            raise ValueError("between needs the lower limit first")
        return self

    @property
    def expected(self) -> tuple[float | None, float | None]:
        """Smallest and largest ratio that the claim allows; None: no limit on that side."""
        if self.about is not None and self.within is not None:
            return self.about / (1 + self.within), self.about * (1 + self.within)
        return self.between or (self.at_least, self.at_most)

    @property
    def expectation(self) -> str:
        """Text of the expectation: `at least 2`, `about 1.2 (within 25%)`."""
        if self.about is not None and self.within is not None:
            return f"about {self.about:g} (within {self.within:.0%})"
        low, high = self.expected
        if low is not None and high is not None:
            return f"between {low:g} and {high:g}"
        return f"at least {low:g}" if low is not None else f"at most {high:g}"


def claims_of(scenario: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return the claims of a stored scenario."""
    return tuple(Claim.model_validate(claim) for claim in scenario.get("claims") or ())


def asked_ratio_of(scenario: Mapping[str, Any]) -> AskedRatio | None:
    """Return the ratio that a stored scenario names as its answer; None: it names none."""
    given = scenario.get("answer")
    return None if given is None else AskedRatio.model_validate(given)


class Published(Frozen):
    """Published figures of a cell.

    `cell` has the levels that identify it. If it matches several cells, the study did not distinguish them: its figures
    are shown for each.
    """

    cell: Levels = Field(min_length=1, description="levels that identify the cell", examples=[{"stack": "go"}])
    figures: Mapping[Name, NonNegativeFloat] = Field(
        default_factory=dict, description="by column of `trials`, in SI units", examples=[{"rps": 128403}]
    )
    shares: Mapping[Name, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict, description="cumulative CPU shares by function", examples=[{"mcall": 0.12}]
    )
    note: str | None = Field(
        default=None, min_length=1, description="conditions of the study", examples=["on eight cores"]
    )


def published_of(scenario: Mapping[str, Any]) -> tuple[Published, ...]:
    """Return the published figures of a stored scenario."""
    return tuple(Published.model_validate(entry) for entry in scenario.get("published") or ())
