"""The interface by which a run reports its progress to a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from benchkit.scenario.trial_order import PlannedTrial


class RunObserver(Protocol):
    """Receiver of the events of a run."""

    def notify(self, text: str) -> None:
        """Show a message about the run as a whole: its present stage, or something that happened to a host."""

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Show the trials that finished before the run was resumed, each with its verdict, or `failed`."""

    def trial_started(self, planned_trial: PlannedTrial) -> None:
        """Show that a trial starts."""

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Show that a trial ended with this rate and the verdict `valid`, `suspect` or `invalid`.

        `checks` are the names of the checks that gave a verdict other than `valid`.
        """

    def trial_failed(self, planned_trial: PlannedTrial, reason: str) -> None:
        """Show that a trial failed or was skipped."""

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        """Show that a trial failed and is about to be retried after this pause."""

    def block_interrupted(self, block: int) -> None:
        """Show that a pause interrupted a block: all of its trials are repeated."""
