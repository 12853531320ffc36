"""Hosts tuned for the duration of a run, and restored after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchkit.errors import HostError, LostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan, apply
from benchkit.results.journal import Journal
from benchkit.results.journal_events import HostRestored, HostTuned
from benchkit.run.plan.model import RunPlan
from benchkit.run.run_log import log_step

logger = logging.getLogger(__name__)


class NotRestoredError(HostError):
    """Hosts on which settings of the run remain; the records of the previous values are kept there."""

    def __init__(self, hosts: Mapping[str, HostError]) -> None:
        """Take the error of each host, by its name."""
        super().__init__("\n".join(map(str, hosts.values())))
        self.hosts = {
            name: ": ".join(filter(None, (error.where, error.what, error.why))) for name, error in hosts.items()
        }


@contextmanager
def tuned(plan: RunPlan, hosts: Hosts, journal: Journal) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Apply the plan's tuning, and restore everything at the end, verified.

    Yields the outcome of each setting by host, which the journal records as well: applied, unchanged, or the reason why
    not. Raises HostError where a host refuses a setting that the plan expected it to accept and the scenario requires,
    NotRestoredError where a setting cannot be restored. A host that was dropped, or is lost by then, is restored by its
    watchdog.
    """
    outcomes: dict[str, dict[str, str]] = {}
    try:
        for planned in plan.tuning:
            outcomes.setdefault(planned.host, {}).update(tune(planned, plan, hosts, journal))
        yield outcomes
    finally:
        failures: dict[str, HostError] = {}
        tuned_hosts = [planned.host for planned in plan.tuning if planned.values and planned.host in hosts]
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
            result = apply(hosts.kernel_host(planned.host).changes, planned)
        applied = {key: written.outcome for key, written in result.written.items()}
        outcomes.update(applied)
        journal.append(HostTuned(host=planned.host, outcomes=applied, not_applied=tuple(result.sentences)))
        plan.require_tuning(planned.host, result.sentences)
    return outcomes


def _restore(host: str, hosts: Hosts, journal: Journal) -> None:
    with log_step(logger, "restore settings", host):
        changes = hosts[host].changes.restore(own=True)
    failures = [f"{change.text}: {failure}" for change in changes for failure in change.failures]
    settings = tuple(change.text for change in changes)
    logger.info("%s: restored: %s", host, "; ".join(settings) or "nothing was changed")
    journal.append(HostRestored(host=host, settings=settings, failures=tuple(failures)))
    if failures:
        raise HostError(
            "not all settings could be restored",
            where=host,
            why="; ".join(failures),
            hint="their record is kept there; `benchkit hosts restore` tries again",
        )
