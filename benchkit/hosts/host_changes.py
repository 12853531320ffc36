"""The changes made to a host: each is recorded first, and restored from its record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from benchkit.agent import operations as ops
from benchkit.agent.records import Records
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import progress_logger

ChangeScope = Literal["run", "cell"]
"""Scope of a kernel setting: the whole run, or the trials of one cell, which override the run's settings."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """A change on a host that has to be undone."""

    kind: str
    """sysctl, process, folder, …; "damaged" where the record cannot be read."""
    state: Literal["mine", "other", "abandoned"]
    """Owner of the change: this connection, another one, or one that no longer exists."""
    since: datetime | None
    text: str
    """The change, as a phrase for messages."""


@dataclass(frozen=True)
class RestoredChange:
    """The outcome of undoing a recorded change."""

    text: str
    failures: tuple[str, ...]
    """Reasons why it is not undone; its record is then kept. Empty: it is undone, verified by reading."""
    how: str = "undone"
    """"undone" or "failed"; "rebooted": a reboot of the host had undone it already; "kept": it belongs to a run that is
    not finished."""
    notes: tuple[str, ...] = ()
    """Parts that stay as they are because somebody else has changed them since, as sentences."""


@dataclass(frozen=True)
class WatchdogReport:
    """A watchdog's report on restoring a host after a connection that ended without a goodbye."""

    name: str
    at: datetime
    reason: str
    run: str | None
    """The run that held the host."""
    undone: tuple[str, ...]
    """Processes ended, settings restored and folders removed, as phrases for messages."""
    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Settings that stay as they are because somebody else has changed them since, as sentences."""

    def __str__(self) -> str:
        run = f"run {self.run}: " if self.run else ""
        undone = f"; undone: {', '.join(self.undone)}" if self.undone else ""
        failed = f"; failed: {'; '.join(self.failures)}" if self.failures else ""
        notes = f"; {'; '.join(self.notes)}" if self.notes else ""
        return f"{self.at:%Y-%m-%d %H:%M:%S} UTC, {run}{self.reason}{undone}{failed}{notes}"


@dataclass(frozen=True)
class Leftovers:
    """The traces of an earlier run on a host."""

    reports: tuple[WatchdogReport, ...] = ()
    """Reports of its watchdog."""
    restored: tuple[RestoredChange, ...] = ()
    """Changes that were still in place and have now been restored."""


@dataclass(frozen=True)
class HostTraces:
    """The traces of benchkit on a host: changes to undo, reports of watchdogs, the holder of the host."""

    records: tuple[Record, ...]
    reports: tuple[WatchdogReport, ...]
    holder: ops.LockHolder | None


class HostChanges:
    """The changes made to one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str) -> None:
        self._link = link
        self._host = host

    def run_cleanup(self, scope: str, timeout_s: float) -> None:
        """Run the recorded commands of a scope; a failed command stays on record. Raises HostError naming it."""
        undone = self._link.call_within(timeout_s, Undo.restore, own=True, scope=scope)
        if failures := [failure for each in undone for failure in each.failures]:
            raise HostError("a cleanup failed", where=self._host, why="; ".join(failures))

    def state(self) -> HostTraces:
        """Return all connections' changes to undo, the watchdogs' reports and the holder. Raises HostError."""
        state = self._link.call(Undo.traces)
        records = [
            Record(each["kind"], each["state"], datetime.fromtimestamp(each["at"], UTC), _text(each))
            for each in state.records
        ]
        orphans = [Record("process", "abandoned", None, f"process {each.pid} ({each.name})") for each in state.orphans]
        return HostTraces(
            records=(*records, *orphans),
            reports=tuple(_report(each) for each in state.reports),
            holder=state.holder,
        )

    def restore(self, *, own: bool = False, scope: ChangeScope | None = None) -> tuple[RestoredChange, ...]:
        """Restore the changes made over this link and, unless `own`, those of abandoned runs.

        With a `scope`, restore only the kernel settings that were written with it. Raises HostError.
        """
        logger.info(
            "%s: restoring %s", self._host, "own changes" if own else "own changes and what abandoned runs left"
        )
        changes = tuple(
            RestoredChange(_text(each.record), tuple(each.failures), each.how, tuple(each.notes))
            for each in self._link.call(Undo.restore, own=own, scope=scope)
        )
        for change in changes:
            logger.info("%s: %s: %s", self._host, change.text, "; ".join(change.failures) or change.how)
            for note in change.notes:
                progress_logger.warning("%s: %s", self._host, note)
        return changes

    def clean_up(self) -> Leftovers:
        """Restore the changes of abandoned runs, and read the reports of their watchdogs.

        Raises HostError where something cannot be restored.
        """
        state = self.state()
        restored: tuple[RestoredChange, ...] = ()
        if any(record.state == "abandoned" for record in state.records):
            restored = tuple(change for change in self.restore() if change.how != "kept")
        if failures := [failure for change in restored for failure in change.failures]:
            raise HostError(
                "changes of an earlier run cannot be restored",
                where=self._host,
                why="; ".join(failures),
                hint="run `benchkit hosts restore` to try again; the record is kept until it succeeds",
            )
        for report in state.reports:
            self._link.call(Records.delete_report, report.name)
        return Leftovers(state.reports, restored)


def _text(record: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each kind
    match record["kind"]:
        case "sysctl":
            return ", ".join(f"{key} (was {value})" for key, value in record["former"].items())
        case "process":
            return (
                f"process {record['pid']} ({record['program']})" if "pid" in record else f"process {record['program']}"
            )
        case "folder" | "file" as kind:
            return f"{kind} {record['path']}"
        case "cleanup":
            return str(record["scope"])
        case "group":
            return f"control group {record['path']}"
        case "containers":
            images = f" and {len(record['images'])} images" if record["images"] else ""
            return f"containers{images} of {record['engine']} (label {record['label']})"
        case "damaged":
            return "a record that cannot be read"
        case kind:
            return f"a record of the kind {kind}"


def _report(message: Mapping[str, Any]) -> WatchdogReport:
    undone = [
        *(f"process {name}" for name in message["ended"]),
        *(_text(each["record"]) for each in message["undone"] if not each.get("notes")),
    ]
    return WatchdogReport(
        name=message["name"],
        at=datetime.fromtimestamp(message["at"], UTC),
        reason=message["reason"],
        run=message["holder"].get("run"),
        undone=tuple(dict.fromkeys(undone)),
        failures=tuple(message["failures"]),
        notes=tuple(dict.fromkeys(note for each in message["undone"] for note in each.get("notes", ()))),
    )
