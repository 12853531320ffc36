"""The interface by which a run reports its progress to a display."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow to import: `--help` must not wait for them
    from benchkit.hosts.connections import Hosts
    from benchkit.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial
    from benchkit.store.run_folder import RunFolder


class RunObserver:
    """Receiver of the events of a run, which ignores them."""

    def planning(self, cells: int) -> None:
        """Show that a run of this number of cells is being planned."""

    def run_opened(self, plan: RunPlan, hosts: Hosts, folder: RunFolder) -> RunObserver:  # noqa: ARG002 - for displays
        """Return the receiver of all further events of a run with this plan, these hosts, and this folder."""
        return self

    def notify(self, text: str) -> None:
        """Show a message about the run as a whole: its present stage, or something that happened to a host."""

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Show the trials that finished before the run was resumed, each with its verdict, or `failed`."""

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:
        """Show that a trial starts on a testbed; None: the hosts are not divided into testbeds."""

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Show that a trial ended with this rate and the verdict `valid`, `suspect` or `invalid`.

        `checks` are the names of the checks that gave a verdict other than `valid`.
        """

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Show that a trial failed or was skipped; `reason` is None where an earlier trial showed the same one."""

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        """Show that a trial failed and is about to be retried after this pause."""

    def block_added(self, trials: Sequence[PlannedTrial], lost: int) -> None:
        """Show that a block with these trials was added in place of the block `lost`, which has invalid trials."""

    def block_interrupted(self, block: int) -> None:
        """Show that a pause interrupted a block: all of its trials are repeated."""


class _SerializedObserver(RunObserver):
    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self._lock = threading.RLock()

    def notify(self, text: str) -> None:
        with self._lock:
            self._observer.notify(text)

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        with self._lock:
            self._observer.run_resumed(finished)

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:
        with self._lock:
            self._observer.trial_started(planned_trial, testbed)

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        with self._lock:
            self._observer.trial_ended(planned_trial, rps, verdict, checks)

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        with self._lock:
            self._observer.trial_failed(planned_trial, reason)

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        with self._lock:
            self._observer.trial_retrying(planned_trial, reason, pause_s)

    def block_added(self, trials: Sequence[PlannedTrial], lost: int) -> None:
        with self._lock:
            self._observer.block_added(trials, lost)

    def block_interrupted(self, block: int) -> None:
        with self._lock:
            self._observer.block_interrupted(block)


def serialized_observer(observer: RunObserver) -> RunObserver:
    """Return the observer for the threads of several testbeds: it gets one event at a time."""
    return _SerializedObserver(observer)
