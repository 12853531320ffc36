"""Hosts tuned for the time of a run, and put back as they were found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchkit.errors import HostError, LostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan, apply
from benchkit.results.journal import Journal
from benchkit.run.plan.model import RunPlan


class NotRestoredError(HostError):
    """Hosts that have kept settings of the run; the records of what these were are kept there."""

    def __init__(self, hosts: Mapping[str, HostError]) -> None:
        """Take what is wrong with each of them, by name."""
        super().__init__("\n".join(map(str, hosts.values())))
        self.hosts = {
            name: ": ".join(filter(None, (error.where, error.what, error.why))) for name, error in hosts.items()
        }


@contextmanager
def tuned(plan: RunPlan, hosts: Hosts, journal: Journal) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Apply the plan's tuning, and put everything back at the end, verified.

    Yields what became of each setting of each host: applied, already so, or why not. It is journaled, too. Raises
    HostError where a host does not take what its plan promised and the scenario requires, NotPutBackError where a
    setting cannot be put back. What a host that was given up, or is lost by then, has to put back, its guardian
    puts back.
    """
    became: dict[str, dict[str, str]] = {}
    try:
        for planned in plan.tuning:
            became.setdefault(planned.host, {}).update(tune(planned, plan, hosts, journal))
        yield became
    finally:
        failures: dict[str, HostError] = {}
        tuned_hosts = [planned.host for planned in plan.tuning if planned.values and planned.host in hosts]
        for host in dict.fromkeys(hosts.kernel_of(name).name for name in tuned_hosts):
            try:
                _restore(host, hosts, journal)
            except LostError:  # whoever looks at the host next hears the same
                continue
            except HostError as error:
                failures[host] = error
        if failures:
            raise NotRestoredError(failures)


def tune(planned: TuningPlan, plan: RunPlan, hosts: Hosts, journal: Journal) -> dict[str, str]:
    """Apply one part of the plan's tuning; what became of each of its settings. Raises HostError as `tuned` does."""
    became: dict[str, str] = {setting.key: setting.status for setting in planned.settings}
    if planned.values:
        done = apply(hosts.kernel_of(planned.host).changes, planned)
        outcomes = {key: written.outcome for key, written in done.written.items()}
        became.update(outcomes)
        journal.append("tuned", host=planned.host, outcomes=outcomes, short=list(done.sentences))
        plan.require_tuning(planned.host, done.sentences)
    return became


def _restore(host: str, hosts: Hosts, journal: Journal) -> None:
    undone = hosts[host].changes.restore(own=True)
    failures = [f"{each.text}: {failure}" for each in undone for failure in each.failures]
    journal.append("restored", host=host, settings=[each.text for each in undone], failures=failures)
    if failures:
        raise HostError(
            "not everything could be put back",
            where=host,
            why="; ".join(failures),
            hint="the record is kept there; `benchkit hosts restore` tries again",
        )
