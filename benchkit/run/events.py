"""Events of a run, for its display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow to import: `--help` must not wait for them
    from benchkit.hosts.connections import Hosts
    from benchkit.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial
    from benchkit.store.run_folder import RunFolder


@dataclass(frozen=True)
class Planning:
    """The start of planning a run."""

    cells: int


@dataclass(frozen=True)
class Opened:
    """The end of planning: the run has its plan and its folder."""

    plan: RunPlan
    hosts: Hosts
    folder: RunFolder


@dataclass(frozen=True)
class Notice:
    """A message about the whole run: its current step, or an event on a host."""

    text: str


@dataclass(frozen=True)
class Resumed:
    """The resumption of a run."""

    finished: Mapping[PlannedTrial, str]
    """Verdicts of the trials that had finished before, or `failed`."""


@dataclass(frozen=True)
class TrialBegun:
    """The start of an attempt at a trial."""

    trial: PlannedTrial


@dataclass(frozen=True)
class TrialJudged:
    """The end of a trial, with its rate and the verdict `valid`, `suspect` or `invalid`."""

    trial: PlannedTrial
    rps: float | None
    verdict: str
    checks: tuple[str, ...] = ()
    """Names of the checks that gave a verdict other than `valid`."""


@dataclass(frozen=True)
class TrialWithoutResult:
    """A trial that failed or was skipped."""

    trial: PlannedTrial
    reason: str | None
    """None where an earlier trial was skipped for the same reason."""


@dataclass(frozen=True)
class TrialRetried:
    """A failed attempt at a trial, which is retried after a pause."""

    trial: PlannedTrial
    reason: str
    pause_s: float


@dataclass(frozen=True)
class BlockRepeated:
    """A block interrupted by a pause: all of its trials are repeated."""

    block: int


Event = (
    Planning | Opened | Notice | Resumed | TrialBegun | TrialJudged | TrialWithoutResult | TrialRetried | BlockRepeated
)

Show = Callable[[Event], None]
"""Function that shows an event, or ignores it."""


def show_nothing(_event: Event) -> None:
    """Ignore an event."""
