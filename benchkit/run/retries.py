"""Decisions about failed trials: retries, the pauses before them, and the skipping of cells that keep failing. Pure.

A failure of the server or of the scenario is a result. It is not retried, so that occasional failures are noticed. A
lost host and a passing state of a host say nothing about the cell: such trials are retried. A load tool may hang
because a busy host gave it no CPU time in a short slice: its block is repeated once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchkit.errors import HostStateError, InputError, LoadToolError, LoadToolHangError, LostError, ServiceError
from benchkit.store.journal import FailureCause

MAX_ATTEMPTS = 3
"""Most attempts at a trial that lose a host; each takes as long as a reconnection."""

MAX_ATTEMPTS_OF_TOOL = 2
"""Most attempts at a block in which a load tool hangs; in the last one only the trial of that tool fails."""

TRIAL_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Pauses before the retries of a trial that failed by a state of its host, in seconds.

The first are short, because a disk that another program fills is often empty again within a second. Together they are
63.5 s: longer than the minute for which the kernel keeps the port of a closed connection (TIME-WAIT).
"""

RUN_PAUSES_S = 180.0
"""Longest sum of these pauses in a run, nearly those of three trials. A state that lasts longer needs a person: the run
should end soon and report it."""

MAX_FAILURES_IN_ROW = 3
"""Number of failures of a cell in a row after which its remaining trials are skipped. Two may be chance where a server
fails occasionally. After three, further trials would most likely show nothing new."""

CAUSES: Mapping[type[Exception], FailureCause] = {
    LostError: "host-lost",
    HostStateError: "host-state",
    ServiceError: "server",
    LoadToolError: "load-tool",
    LoadToolHangError: "hang",
    InputError: "scenario",
}
"""Causes of failures by the types of their errors."""


def cause_of(error: Exception, *, is_host_lost: bool) -> FailureCause:
    """Return the cause of a trial's failure."""
    if is_host_lost:
        return "host-lost"
    return next((cause for kind, cause in CAUSES.items() if isinstance(error, kind)), "other")


@dataclass(frozen=True)
class Retry:
    """Decision after a failed attempt: a retry, after a pause if there is one, or none."""

    is_retried: bool
    pause_s: float | None = None


class TrialAttempts:
    """Failed attempts at one trial, counted by cause."""

    def __init__(self, pauses: Iterator[float]) -> None:
        self._pauses = pauses
        self._losses = 0
        self._hangs = 0
        self.waited_s = 0.0

    def decide(self, cause: FailureCause) -> Retry:
        """Count a failure and decide on the retry."""
        if cause == "host-lost":
            self._losses += 1
            return Retry(self._losses < MAX_ATTEMPTS)
        if cause == "hang":
            self._hangs += 1
            return Retry(self._hangs < MAX_ATTEMPTS_OF_TOOL)
        pause_s = next(self._pauses, None) if cause == "host-state" else None
        self.waited_s += pause_s or 0.0
        return Retry(pause_s is not None, pause_s)


class RetryPolicy:
    """The budget of pauses of one run, and its cells with too many failures in a row."""

    def __init__(self) -> None:
        self._remaining_s = RUN_PAUSES_S
        self._failures: dict[str, list[str]] = {}

    def pauses(self) -> Iterator[float]:
        """Yield the pauses between the attempts at one trial until the budget of the run is used up."""
        for pause_s in TRIAL_PAUSES_S:
            if pause_s > self._remaining_s:
                return
            self._remaining_s -= pause_s
            yield pause_s

    def add_success(self, cell_id: str) -> None:
        """Add a trial that ended."""
        self._failures.pop(cell_id, None)

    def add_failure(self, cell_id: str, reason: str) -> None:
        """Add a trial that failed and is not retried."""
        self._failures.setdefault(cell_id, []).append(reason)

    def why_skipped(self, cell_id: str) -> str | None:
        """Return why the remaining trials of a cell are skipped; None if they run."""
        failures = self._failures.get(cell_id, [])
        if len(failures) < MAX_FAILURES_IN_ROW:
            return None
        return f"skipped after {len(failures)} failures of this cell in a row, the last one: {failures[-1]}"
