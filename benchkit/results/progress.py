"""The progress of a run by its journal: what a resumed run continues from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TRIAL_STARTED, TRIAL_ENDED, TRIAL_FAILED, TRIAL_SKIPPED = (
    "trial-started",
    "trial-ended",
    "trial-failed",
    "trial-skipped",
)
BLOCK_INTERRUPTED = "block-split"
"""Events of the journal. A trial that ended is stored and counts; one that failed finally is not retried."""


@dataclass(frozen=True)
class TrialPosition:
    """The position of a trial in the order of a run; `round` counts how often its block was started."""

    block: int
    round: int
    position: int
    cell_id: str


@dataclass
class Progress:
    """The state of the trials of a run so far, by their ids."""

    positions: dict[str, TrialPosition] = field(default_factory=dict)
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

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply one event of the journal."""
        match event["event"]:
            case "run-started":
                self.order_hash = event.get("order")
            case "run-ended":
                self.status = event["status"]
            case "run-resumed":
                self.status = None
            case "host-facts" if event["stage"] == "start":
                self.known_hosts.add(event["host"])
            case "block-split":
                self.interrupted.update(event["trials"])
                self.rounds[event["block"]] = event["round"]
            case kind if kind.startswith("trial-"):
                self._apply_to_trial(kind, str(event["trial_id"]), event)

    def _apply_to_trial(self, kind: str, trial: str, event: Mapping[str, Any]) -> None:
        if kind in (TRIAL_STARTED, TRIAL_SKIPPED):
            self.positions[trial] = TrialPosition(
                event["block"], event.get("round", 1), event["position"], event["cell_id"]
            )
        if kind == TRIAL_STARTED:
            self.skipped.pop(trial, None)
        elif kind == TRIAL_ENDED:
            self.ended[trial] = float(event.get("wall_s", 0.0))
        elif kind == TRIAL_SKIPPED:
            self.skipped[trial] = str(event["why"])
        elif event.get("again"):
            self.retries.setdefault(trial, []).append(str(event["why"]))
        else:
            self.failed[trial] = str(event["why"])


def read_progress(history: Iterable[Mapping[str, Any]]) -> Progress:
    """Return the progress that the events of a journal describe."""
    progress = Progress()
    for event in history:
        progress.apply(event)
    return progress
