"""The changes made to a host: each is recorded first, and restored from its record."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from benchkit.agent.operations import UndoneChange, WatchdogReport
from benchkit.agent.records import Records
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import progress_logger

ChangeScope = Literal["run", "cell"]
"""Scope of a kernel setting: the whole run, or the trials of one cell, which override the run's settings."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Leftovers:
    """The traces of an earlier run on a host."""

    reports: tuple[WatchdogReport, ...] = ()
    """Reports of its watchdog."""
    restored: tuple[UndoneChange, ...] = ()
    """Changes that were still in place and have now been restored."""


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

    def restore(self, *, own: bool = False, scope: ChangeScope | None = None) -> list[UndoneChange]:
        """Restore the changes made over this link and, unless `own`, those of abandoned runs.

        With a `scope`, restore only the kernel settings that were written with it. Raises HostError.
        """
        changes = self._link.call(Undo.restore, own=own, scope=scope)
        for change in changes:
            logger.info("%s: %s: %s", self._host, change.text, "; ".join(change.failures) or change.how)
            for note in change.notes:
                progress_logger.warning("%s: %s", self._host, note)
        return changes

    def clean_up(self) -> Leftovers:
        """Restore the changes of abandoned runs, and read the reports of their watchdogs.

        Raises HostError where something cannot be restored.
        """
        traces = self._link.call(Undo.traces)
        restored: tuple[UndoneChange, ...] = ()
        if any(record.state == "abandoned" for record in traces.records):
            restored = tuple(change for change in self.restore() if change.how != "kept")
        if failures := [failure for change in restored for failure in change.failures]:
            raise HostError(
                "changes of an earlier run cannot be restored",
                where=self._host,
                why="; ".join(failures),
                hint="run `benchkit hosts restore` to try again; the record is kept until it succeeds",
            )
        for report in traces.reports:
            self._link.call(Records.delete_report, report.name)
        return Leftovers(tuple(traces.reports), restored)
