"""How far a run has come, by its journal: what a run that is taken up again goes on from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

STARTED, ENDED, FAILED, SKIPPED, SPLIT = "trial-started", "trial-ended", "trial-failed", "trial-skipped", "block-split"
"""The journal's words. A trial that ended is stored and counts; one that failed for good is not tried again."""


@dataclass(frozen=True)
class TrialPosition:
    """Where in the order of a run a trial stands; `round` counts how often its block has been begun anew."""

    block: int
    round: int
    position: int
    cell_id: str


@dataclass
class Progress:
    """What has become of the trials of a run so far, by their ids."""

    places: dict[str, TrialPosition] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    """How long it took, seconds."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why it failed for good."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why it was not carried out; it still may be."""
    retried: dict[str, list[str]] = field(default_factory=dict)
    """Why it was tried again, each time."""
    split: set[str] = field(default_factory=set)
    """Those whose block was cut by a pause and run again whole: kept, and left out of ratios."""
    rounds: dict[int, int] = field(default_factory=dict)
    """The latest round of each block that was begun anew."""
    order: str | None = None
    """What the plan's order was, as a hash."""
    closed: str | None = None
    """How it ended; None while it has not, or was killed."""
    known: set[str] = field(default_factory=set)
    """Hosts whose facts at the start are written down."""

    @property
    def unsettled(self) -> set[str]:
        """Trials that were begun, and of which nothing more is known."""
        return self.places.keys() - self.ended.keys() - self.failed.keys() - self.skipped.keys()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in a line of the journal."""
        match event["event"]:
            case "run-started":
                self.order = event.get("order")
            case "run-ended":
                self.closed = event["status"]
            case "run-resumed":
                self.closed = None
            case "host-facts" if event["stage"] == "start":
                self.known.add(event["host"])
            case "block-split":
                self.split.update(event["trials"])
                self.rounds[event["block"]] = event["round"]
            case kind if kind.startswith("trial-"):
                self._take_trial(kind, str(event["trial_id"]), event)

    def _take_trial(self, kind: str, trial: str, event: Mapping[str, Any]) -> None:
        if kind in (STARTED, SKIPPED):
            place = TrialPosition(event["block"], event.get("round", 1), event["position"], event["cell_id"])
            self.places[trial] = place
        if kind == STARTED:
            self.skipped.pop(trial, None)
        elif kind == ENDED:
            self.ended[trial] = float(event.get("wall_s", 0.0))
        elif kind == SKIPPED:
            self.skipped[trial] = str(event["why"])
        elif event.get("again"):
            self.retried.setdefault(trial, []).append(str(event["why"]))
        else:
            self.failed[trial] = str(event["why"])


def progress_of(history: Iterable[Mapping[str, Any]]) -> Progress:
    """How far a run has come."""
    progress = Progress()
    for event in history:
        progress.take(event)
    return progress
