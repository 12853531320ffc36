"""Hosts tuned for the duration of a run, and restored after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchkit.errors import BenchkitError, HostError, LostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan, apply
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.store.journal import Journal
from benchkit.store.run_log import log_step

Settings = tuple[TuningPlan, ...]

logger = logging.getLogger(__name__)


class NotRestoredError(HostError):
    """Hosts on which settings of the run remain; the records of the previous values are kept there."""

    def __init__(self, hosts: Mapping[str, HostError]) -> None:
        super().__init__("\n".join(map(str, hosts.values())))
        self.hosts = {name: error.summary for name, error in hosts.items()}


@contextmanager
def tuned(plan: RunPlan, hosts: Hosts, journal: Journal) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Apply the plan's tuning, and restore everything at the end, verified.

    Yields the outcome of each setting by host, which the journal records as well: applied, unchanged, or the reason why
    not. Raises HostError where a host refuses a setting that the plan expected it to accept and the scenario requires.
    Raises NotRestoredError where a setting cannot be restored. A host that was dropped, or is lost by then, is restored
    by its watchdog.
    """
    outcomes: dict[str, dict[str, str]] = {}
    try:
        for planned in plan.tuning:
            outcomes.setdefault(planned.host, {}).update(tune(planned, plan, hosts, journal))
        yield outcomes
    finally:
        failures: dict[str, HostError] = {}
        tuned_hosts = [planned.host for planned in plan.whole_tuning if planned.values and planned.host in hosts]
        for host in dict.fromkeys(hosts.kernel_host(name).name for name in tuned_hosts):
            try:
                _restore(host, hosts, journal)
            except LostError:  # the next request to the host raises the same error
                continue
            except HostError as error:
                failures[host] = error
        if failures:
            raise NotRestoredError(failures)


def tune(planned: TuningPlan, plan: RunPlan, hosts: Hosts, journal: Journal) -> dict[str, str]:
    """Apply one part of the plan's tuning; return the outcome of each setting. Raises HostError as `tuned` does."""
    outcomes: dict[str, str] = {setting.key: setting.status for setting in planned.settings}
    if planned.values:
        with log_step(logger, f"tune {', '.join(planned.values)}", planned.host):
            result = apply(hosts.kernel_host(planned.host), planned)
        applied = {key: written.outcome for key, written in result.written.items()}
        outcomes.update(applied)
        journal.record("tuned", host=planned.host, outcomes=applied, not_applied=result.sentences)
        plan.require_tuning(planned.host, result.sentences)
    return outcomes


class CellTuning:
    """The kernel settings of cells, which override the run's; one cell's are applied at a time."""

    def __init__(self, plan: RunPlan, hosts: Hosts, journal: Journal) -> None:
        self._plan = plan
        self._hosts = hosts
        self._journal = journal
        self._applied: dict[str, Settings | None] = {}
        self.not_applied: dict[str, str] = {}
        """Cells with settings that a host refused, contrary to the plan, each with the reason."""

    def switch_to(self, cell: PlannedCell) -> tuple[str, ...]:
        """Restore the previous cell's settings and apply this one's, where they differ, all verified.

        Returns sentences about settings that somebody else had changed meanwhile. Raises HostError where a setting
        cannot be restored or applied, BenchkitError where the scenario requires it.
        """
        wanted: dict[str, Settings] = {}
        for planned in cell.tuning:
            if planned.values and planned.host in self._hosts:
                name = self._hosts.kernel_host(planned.host).name
                wanted[name] = (*wanted.get(name, ()), planned)
        notes: list[str] = []
        for name in sorted({*wanted, *self._applied}):
            if name in self._hosts and self._applied.get(name, ()) != wanted.get(name, ()):
                notes += self._switch(name, wanted.get(name, ()), cell)
        return tuple(notes)

    def forget(self, host: str) -> None:
        """Forget what was applied on a host that has lost its connection: its watchdog has restored it."""
        self._applied.pop(host, None)

    def _switch(self, name: str, wanted: Settings, cell: PlannedCell) -> tuple[str, ...]:
        host, started_s = self._hosts[name], time.monotonic()
        self._applied[name] = None
        with log_step(logger, f"switch to the kernel settings of {cell.cell_id}", name):
            restored = host.changes.restore(own=True, scope="cell")
            results = () if any(each.failures for each in restored) else [apply(host, each, "cell") for each in wanted]
        failures = [f"{name}: {each.text}: {failure}" for each in restored for failure in each.failures]
        failures += [sentence for result in results for sentence in result.sentences]
        self._journal.record(
            "tuning-switched",
            cell_id=cell.cell_id,
            host=name,
            restored=[each.text for each in restored],
            outcomes={key: written.outcome for result in results for key, written in result.written.items()},
            not_applied=failures,
            took_s=time.monotonic() - started_s,
        )
        if failures:
            raise self._error(cell, "; ".join(failures))
        self._applied[name] = wanted
        return tuple(f"{name}: {note}" for each in restored for note in each.notes)

    def _error(self, cell: PlannedCell, failures: str) -> BenchkitError:
        if self._plan.experiment.requires_tuning(cell.spec.levels):
            return BenchkitError(failures, hint="the scenario requires this tuning")
        self.not_applied[cell.cell_id] = failures
        return HostError(failures, where=cell.cell_id, hint="its other trials are skipped")


def _restore(host: str, hosts: Hosts, journal: Journal) -> None:
    with log_step(logger, "restore settings", host):
        changes = hosts[host].changes.restore(own=True)
    failures = [f"{change.text}: {failure}" for change in changes for failure in change.failures]
    settings = [change.text for change in changes]
    logger.info("%s: restored: %s", host, "; ".join(settings) or "nothing was changed")
    journal.record("restored", host=host, settings=settings, failures=failures)
    if failures:
        raise HostError(
            "not all settings could be restored",
            where=host,
            why="; ".join(failures),
            hint="their record is kept there; `benchkit hosts restore` tries again",
        )
