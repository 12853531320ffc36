"""The journal of a run: one JSON object per line for every finished step, on disk before the next step begins.

A kind of line that has no class here is read as `OtherEvent`.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.models.facts import RecordedFacts
from benchkit.models.run import RunStatus, TrialId
from benchkit.validation import first_fault

FailureCause = Literal["host-lost", "host-state", "server", "scenario", "load-tool", "hang", "other"]
"""Cause of a trial's failure. host-lost: the connection to a host. host-state: a state of a host that may pass, such as
no space. server: a service under test. scenario: the scenario, or an output that cannot be read. load-tool: the tool
cannot measure the server, and another one can. hang: the load tool did not end, and printed no result. other: all else,
such as a load tool that failed."""

_END = b"\n"


class JournalEvent(BaseModel):
    """A line of the journal: something that happened, and when."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


class OtherEvent(JournalEvent):
    """An event only for people (`Journal.record`), or of a kind that this version does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")


class RunStarted(JournalEvent):
    """The start of a run."""

    event: Literal["run-started"] = "run-started"
    run_id: str = ""
    seed: int | None = None
    trials: int | None = None
    order: str | None = None
    """Hash of the planned order of trials."""


class RunResumed(JournalEvent):
    """The start of a process that resumes the run."""

    event: Literal["run-resumed"] = "run-resumed"
    changes: tuple[str, ...] = ()
    """Accepted differences from the start of the run."""


class RunEnded(JournalEvent):
    """The end of a process that worked on the run; missing where it was killed."""

    event: Literal["run-ended"] = "run-ended"
    status: RunStatus
    trials: int | None = None
    failed: int | None = None


class HostFactsRead(JournalEvent):
    """Facts of a host at a stage of the run: `start`, `tuned`, `block n`, `end` or `restored`."""

    event: Literal["host-facts"] = "host-facts"
    host: str
    roles: tuple[str, ...] = ()
    stage: str
    facts: RecordedFacts


class TrialPlaced(JournalEvent):
    """An event that states the place of a trial in the order."""

    trial_id: TrialId
    cell_id: str
    block: int
    round: int = 1
    position: int


class TrialStarted(TrialPlaced):
    """The start of an attempt at a trial."""

    event: Literal["trial-started"] = "trial-started"
    attempt: int = 1


class TrialEnded(JournalEvent):
    """The end of a trial whose raw files are stored."""

    event: Literal["trial-ended"] = "trial-ended"
    trial_id: TrialId
    cell_id: str = ""
    wall_s: float = 0.0


class TrialFailed(JournalEvent):
    """A failed attempt at a trial; `will_retry` if another attempt follows."""

    event: Literal["trial-failed"] = "trial-failed"
    trial_id: TrialId
    cell_id: str = ""
    why: str
    will_retry: bool = False
    cause: FailureCause | None = None
    pause_s: float | None = None
    """Pause before the next attempt, where a state of a host has to pass."""


class TrialSkipped(TrialPlaced):
    """A trial that was not attempted; a resumed run attempts it."""

    event: Literal["trial-skipped"] = "trial-skipped"
    why: str


class BlockInterrupted(JournalEvent):
    """A block that is repeated as `round`, after a pause or for failed trials; its finished `trials` are excluded."""

    event: Literal["block-split"] = "block-split"
    block: int
    round: int
    trials: tuple[TrialId, ...]
    why: Literal["pause", "retry-failed"] = "pause"


_KINDS: dict[str, type[JournalEvent]] = {
    kind.model_fields["event"].default: kind
    for kind in (
        RunStarted,
        RunResumed,
        RunEnded,
        HostFactsRead,
        TrialStarted,
        TrialEnded,
        TrialFailed,
        TrialSkipped,
        BlockInterrupted,
    )
}


def parse_event(document: Mapping[str, object]) -> JournalEvent:
    """Return a line of the journal as an event. Raises pydantic's ValidationError for any other line."""
    return _KINDS.get(str(document.get("event")), OtherEvent).model_validate(document)


class Journal:
    """An append-only file, safe for many threads; each line is synced, so that it survives a crash of the machine."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path` for appending, and remove an incomplete last line that a crash left."""
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, os.pread(self._file, os.fstat(self._file).st_size, 0).rfind(_END) + 1)
        os.lseek(self._file, 0, os.SEEK_END)

    def append(self, event: JournalEvent) -> None:
        """Write an event as one line. Raises OSError; then no part of the line stays in the file."""
        line = event.model_dump_json(exclude_none=True)
        content = memoryview(line.encode() + _END)
        with self._lock:
            before = os.lseek(self._file, 0, os.SEEK_CUR)
            try:
                while content:
                    content = content[os.write(self._file, content) :]
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, before)
                os.lseek(self._file, before, os.SEEK_SET)
                raise

    def record(self, event: str, **fields: object) -> None:
        """Write an event only for people: no run is resumed or repaired by it. Raises OSError as `append` does."""
        self.append(OtherEvent.model_validate({"event": event, **fields}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def read_journal(path: Path) -> Iterator[JournalEvent]:
    """Yield the events of a journal, without an incomplete last line.

    Raises InputError for a damaged line, and where the file cannot be read.
    """
    try:
        content = read_regular(path)
    except OSError as error:
        raise InputError("cannot read the journal of the run", where=str(path), why=error.strerror) from None
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.endswith(_END):
            yield _event(line, path, number)


def _event(line: bytes, path: Path, number: int) -> JournalEvent:
    try:
        document = from_json(line)
        if isinstance(document, dict):
            return parse_event(document)
        why = "the line is not an event"
    except ValueError as error:
        why = first_fault(error) if isinstance(error, ValidationError) else str(error)
    hint = "restore the file from a backup, or remove this line"
    raise InputError("the journal is damaged", where=f"{path}:{number}", why=why, hint=hint)


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
            case BlockInterrupted():
                self.interrupted.update(event.trials)
                self.rounds[event.block] = event.round


def read_progress(history: Iterable[JournalEvent]) -> RunProgress:
    """Return the progress that the events of a journal describe."""
    progress = RunProgress()
    for event in history:
        progress.apply(event)
    return progress
