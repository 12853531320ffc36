"""What people see during a run: its matrix on a terminal (`benchkit.cli.live_matrix`), plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchkit import units

if TYPE_CHECKING:
    from benchkit.hosts.connections import Hosts
    from benchkit.run.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial


Place = tuple[int, int]
"""A trial's: its block, and its position in it."""
Places = frozenset[Place]


class Silent:
    """Nothing is shown (`-q`)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    def notify(self, text: str) -> None:
        """A stage of the run begins."""

    def trial_started(self, planned_trial: PlannedTrial) -> None:
        """A trial begins."""

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str) -> None:
        """A trial ended with this rate, which is so much worth."""

    def trial_failed(self, planned_trial: PlannedTrial, why: str) -> None:
        """A trial could not be carried out."""

    def trial_retrying(self, planned_trial: PlannedTrial, why: str) -> None:
        """A trial could not be carried out, and is tried again."""

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Those trials of the run were over before it was taken up again, each with its verdict, or `failed`."""

    def block_interrupted(self, block: int) -> None:
        """A pause has cut a block: all of its trials come again."""


class Plain(Silent):
    """One line for every finished trial, on stderr."""

    def __init__(self, plan: RunPlan) -> None:
        """Count against the trials of the plan."""
        self._plan = plan
        self._done = 0
        self._over: Places = frozenset()
        self._began = time.monotonic()

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Count on from those."""
        self._over = frozenset(map(place_of, finished))

    def block_interrupted(self, block: int) -> None:
        """Print that, and count its trials anew."""
        self._over = without(self._over, block)
        self.notify(f"block {block} stood still for too long and runs again, whole")

    def trial_started(self, planned_trial: PlannedTrial) -> None:  # noqa: ARG002 - every display is told which
        """Count time from the first trial on: building and deploying come once."""
        if self._done == 0:
            self._began = time.monotonic()

    def notify(self, text: str) -> None:
        """Print the stage."""
        print(text, file=sys.stderr, flush=True)

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str) -> None:
        """Print block, cell and rate, and how long it will still take."""
        self._line(planned_trial, shown(planned_trial, rps, verdict))

    def trial_failed(self, planned_trial: PlannedTrial, why: str) -> None:
        """Print block, cell and the reason."""
        self._line(planned_trial, f"failed: {why}")

    def trial_retrying(self, planned_trial: PlannedTrial, why: str) -> None:
        """Print block, cell and the reason, without counting it."""
        self.notify(f"block {planned_trial.block}  {planned_trial.title}  is tried again: {why}")

    def _line(self, planned_trial: PlannedTrial, outcome: str) -> None:
        self._done += 1
        self._over |= {place_of(planned_trial)}
        total, over = len(self._plan.planned_trials), len(self._over)
        elapsed = time.monotonic() - self._began
        left = max(0.0, elapsed / self._done * (total - over))
        print(
            f"[{over}/{total}] block {planned_trial.block}  {planned_trial.title}  {outcome}"
            f"  ({units.seconds(elapsed)} gone, about {units.seconds(left)} left)",
            file=sys.stderr,
            flush=True,
        )


def place_of(planned_trial: PlannedTrial) -> Place:
    """Where in the order of the run a trial stands, whichever round of its block it is of."""
    return planned_trial.block, planned_trial.position


def without(over: Places, block: int) -> Places:
    """What is over, less the trials of a block that comes again."""
    return frozenset(place for place in over if place[0] != block)


def shown(planned_trial: PlannedTrial, rps: float | None, verdict: str) -> str:
    """A rate, and what doubts it; of one that is there for its profile nobody takes a rate."""
    doubted = verdict != "valid" and planned_trial.kind != "profile"
    return units.requests_per_s(rps) + (f" ({verdict})" if doubted else "")


def display(plan: RunPlan, hosts: Hosts, *, quiet: bool) -> Silent:
    """What fits: nothing, the matrix of the run on a terminal, or plain lines."""
    if quiet:
        return Silent()
    if not sys.stderr.isatty():
        return Plain(plan)
    from benchkit.cli.live_matrix import Live  # rich takes a while

    return Live(plan, hosts)
