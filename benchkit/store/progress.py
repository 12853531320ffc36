"""The progress of a run by its journal: what a resumed run continues from. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchkit.store.journal import (
    BlockAdded,
    BlockInterrupted,
    HostFactsRead,
    JournalEvent,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialEnded,
    TrialFailed,
    TrialPlaced,
    TrialSkipped,
    TrialStarted,
)


@dataclass
class RunProgress:
    """The state of the trials of a run so far, by their ids."""

    positions: dict[str, TrialPlaced] = field(default_factory=dict)
    """Block, round, position and cell of each trial, as its last event has them."""
    ended: dict[str, float] = field(default_factory=dict)
    """Duration in seconds of each trial that ended."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reason of each final failure."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason for each trial that was skipped; it may still run."""
    retries: dict[str, list[str]] = field(default_factory=dict)
    """Reasons of all retries of a trial."""
    interrupted: set[str] = field(default_factory=set)
    """Trials whose block was interrupted by a pause and repeated: stored, and in no ratio."""
    rounds: dict[int, int] = field(default_factory=dict)
    """The latest round of each block that was repeated."""
    added: dict[int, int] = field(default_factory=dict)
    """Blocks that were added, each with the lost one that it repeats."""
    order_hash: str | None = None
    """Hash of the planned order of trials."""
    status: str | None = None
    """Final status of the run; None while it runs, or if it was killed."""
    known_hosts: set[str] = field(default_factory=set)
    """Hosts whose facts at the start are recorded."""

    @property
    def unresolved(self) -> set[str]:
        """Trials that started and have no recorded end."""
        return self.positions.keys() - self.ended.keys() - self.failed.keys() - self.skipped.keys()

    def apply(self, event: JournalEvent) -> None:  # noqa: C901 - one case for each kind of event
        """Apply one event of the journal."""
        match event:
            case RunStarted():
                self.order_hash = event.order
            case RunResumed():
                self.status = None
            case RunEnded():
                self.status = event.status
            case HostFactsRead(stage="start"):
                self.known_hosts.add(event.host)
            case TrialStarted():
                self.positions[event.trial_id] = event
                self.skipped.pop(event.trial_id, None)
            case TrialEnded():
                self.ended[event.trial_id] = event.wall_s
            case TrialFailed(will_retry=True):
                self.retries.setdefault(event.trial_id, []).append(event.why)
            case TrialFailed():
                self.failed[event.trial_id] = event.why
            case TrialSkipped():
                self.positions[event.trial_id] = event
                self.skipped[event.trial_id] = event.why
            case BlockAdded():
                self.added[event.block] = event.lost
            case BlockInterrupted():
                self.interrupted.update(event.trials)
                self.rounds[event.block] = event.round


def read_progress(history: Iterable[JournalEvent]) -> RunProgress:
    """Return the progress that the events of a journal describe."""
    progress = RunProgress()
    for event in history:
        progress.apply(event)
    return progress
