"""The interface by which a run reports its progress to a display."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from benchkit.scenario.trial_order import PlannedTrial


class RunObserver(Protocol):
    """Receiver of the events of a run."""

    def notify(self, text: str) -> None:
        """Show a message about the run as a whole: its present stage, or something that happened to a host."""

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Show the trials that finished before the run was resumed, each with its verdict, or `failed`."""

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:
        """Show that a trial starts on a testbed; None: all hosts are one."""

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Show that a trial ended with this rate and the verdict `valid`, `suspect` or `invalid`.

        `checks` are the names of the checks that gave a verdict other than `valid`.
        """

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Show that a trial failed or was skipped; None: for the reason of a trial that was skipped before it."""

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        """Show that a trial failed and is about to be retried after this pause."""

    def block_interrupted(self, block: int) -> None:
        """Show that a pause interrupted a block: all of its trials are repeated."""


class SharedObserver:
    """An observer that several threads report to, of which it hears one at a time."""

    def __init__(self, observer: RunObserver) -> None:
        """Pass all events on to this observer."""
        self._observer = observer
        self._lock = threading.RLock()

    def notify(self, text: str) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.notify(text)

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.run_resumed(finished)

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.trial_started(planned_trial, testbed)

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.trial_ended(planned_trial, rps, verdict, checks)

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.trial_failed(planned_trial, reason)

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.trial_retrying(planned_trial, reason, pause_s)

    def block_interrupted(self, block: int) -> None:
        """Pass it on."""
        with self._lock:
            self._observer.block_interrupted(block)
