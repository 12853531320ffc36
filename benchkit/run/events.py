"""The events of a run, as displays show them."""

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
    """A run of this number of cells is being planned."""

    cells: int


@dataclass(frozen=True)
class Opened:
    """A run is planned, and its folder made; events of its trials follow."""

    plan: RunPlan
    hosts: Hosts
    folder: RunFolder


@dataclass(frozen=True)
class Notice:
    """A message about the run as a whole: its present step, or something that happened to a host."""

    text: str


@dataclass(frozen=True)
class Resumed:
    """A run was resumed."""

    finished: Mapping[PlannedTrial, str]
    """Trials that had finished, each with its verdict, or `failed`."""


@dataclass(frozen=True)
class TrialBegun:
    """An attempt at a trial begins."""

    trial: PlannedTrial


@dataclass(frozen=True)
class TrialJudged:
    """A trial ended, with this rate and the verdict `valid`, `suspect` or `invalid`."""

    trial: PlannedTrial
    rps: float | None
    verdict: str
    checks: tuple[str, ...] = ()
    """Names of the checks that gave a verdict other than `valid`."""


@dataclass(frozen=True)
class TrialWithoutResult:
    """A trial failed or was skipped."""

    trial: PlannedTrial
    reason: str | None
    """None: the same as an earlier trial's."""


@dataclass(frozen=True)
class TrialRetried:
    """A trial failed and is about to be retried after a pause."""

    trial: PlannedTrial
    reason: str
    pause_s: float


@dataclass(frozen=True)
class BlockAppended:
    """A block was added in place of the block `lost`, which has invalid trials."""

    trials: tuple[PlannedTrial, ...]
    lost: int


@dataclass(frozen=True)
class BlockRepeated:
    """A pause interrupted a block: all of its trials are repeated."""

    block: int


Event = (
    Planning
    | Opened
    | Notice
    | Resumed
    | TrialBegun
    | TrialJudged
    | TrialWithoutResult
    | TrialRetried
    | BlockAppended
    | BlockRepeated
)

Show = Callable[[Event], None]
"""Function that shows an event, or ignores it."""


def show_nothing(_event: Event) -> None:
    """Ignore an event."""
