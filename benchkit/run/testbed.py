"""The hosts of a run: tuned, the services deployed; and so again after a lost link."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from benchkit.analysis.run_differences import facts_differing
from benchkit.errors import HostError, LostError
from benchkit.hosts.clock import controller_set_ns, elapsed_s
from benchkit.hosts.connections import RECONNECT_S, Hosts
from benchkit.hosts.cpu_affinity import confined
from benchkit.hosts.facts import SYSCTLS
from benchkit.hosts.files import Placed
from benchkit.hosts.host import Host
from benchkit.hosts.host_changes import Leftovers
from benchkit.run.events import RunObserver
from benchkit.run.manifest import controller_of, facts_of, roles_of
from benchkit.run.plan.model import PlannedCell, RunPlan
from benchkit.run.plan.tuning_plan import nofile_on
from benchkit.run.recorder import RunRecorder
from benchkit.run.tuned_hosts import NotRestoredError, tune, tuned
from benchkit.run.wall_clocks import WallClocks
from benchkit.services import deploy
from benchkit.services.backend import File

MOST_RECONNECTS = 10
"""A host that has been lost so often in one run is given up."""


class Testbed:
    """The hosts of a run, ready for its trials."""

    def __init__(
        self,
        plan: RunPlan,
        hosts: Hosts,
        recorder: RunRecorder,
        observer: RunObserver,
        *,
        reconnect_s: float = RECONNECT_S,
    ) -> None:
        """Take hosts that are held for the run; one that is lost is tried for `reconnect_s` seconds."""
        self.plan = plan
        self.hosts = hosts
        self.gone: dict[str, str] = {}
        """Hosts that were given up, and why."""
        self._book = recorder
        self._observer = observer
        self._reconnect_s = reconnect_s
        self._reconnects: dict[str, int] = {}
        self._clocks = WallClocks()
        self._is_over = False

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Clear, tune and deploy, and leave servers their CPUs; at the end everything is put back, verified.

        What cannot be put back once all trials are over, or is not seen to be, is noted in the outcome: what they came to
        stands. Raises HostError for all that fails before.
        """
        for host in self.hosts:
            self._tell(host.name)
        self.notice_clocks()
        try:
            with tuned(self.plan, self.hosts, self._book.journal) as became:
                if self.plan.tuning:
                    for host in self.hosts:
                        self._look(host, "tuned", became)
                self._observer.notify("building and deploying")
                self._place_programs()
                self._deploy()
                with confined(controller_of(self.plan, self.hosts)):
                    yield
                self._is_over = True
                self._look_last()
        except NotRestoredError as error:
            if not self._is_over:
                raise
            self._book.outcome.not_restored.update(error.hosts)
        self._part()

    def recover(self) -> float:
        """Connect anew to the hosts that are lost, and make them ready again; how long the run stood still, seconds.

        That is from when they were all there for the last time, also where this machine slept and noticed nothing of it. A
        host that cannot be had back is given up.
        """
        began = time.monotonic()
        lost = self.hosts.lost()
        alive_s = min((self.hosts[name].alive_s for name in lost), default=elapsed_s())
        for name in lost:
            self._observer.notify(f"{name}: lost; connecting again")
            try:
                self._reconnect(name)
            except HostError as error:
                self._book.lost(name, str(error))
                self._observer.notify(f"{error}\n{name} is given up; what is left of the run goes on without it")
                self.gone[name] = str(error)
                self.hosts.give_up(name)
            else:
                self._book.journal.append("host-reconnected", host=name, after_s=time.monotonic() - began)
        return elapsed_s() - alive_s

    def notice_clocks(self) -> None:
        """Say and write down which wall clocks were set since this was asked last, as far as their hosts were asked since."""
        text = self._clocks.look(controller_set_ns(), {host.name: host.clock.host_set_ns for host in self.hosts})
        if text is not None:
            self._book.journal.append("clocks-set", text=text)
            self._book.notice(f"While it ran, {text}. Times of day in it are off by that, durations are not.")
            self._observer.notify(text)

    def missing_for(self, cell: PlannedCell) -> str | None:
        """Why a cell cannot be carried out any more, if so: a host that it needs was given up."""
        for name in (*(service.host for service in cell.services), *(each.host for each in cell.generators)):
            if name in self.gone:
                return self.gone[name]
        return None

    def _tell(self, name: str) -> None:
        """Say and write down what an earlier run had left on a host."""
        found = self.hosts.found.get(name, Leftovers())
        self._book.found(name, found)
        for report in found.reports:
            self._observer.notify(f"{name} was put back behind an earlier run: {report}")
        for each in found.undone:
            self._observer.notify(f"{name}: an earlier run had left {each.text}: {each.how}")

    def _reconnect(self, name: str) -> None:
        self._reconnects[name] = self._reconnects.get(name, 0) + 1
        if self._reconnects[name] > MOST_RECONNECTS:
            raise HostError(f"lost {self._reconnects[name]} times", where=name)
        known = self.hosts[name]
        host = self.hosts.reconnect(name, self._reconnect_s)
        if host.facts.boot_id != known.facts.boot_id:
            self._clocks.forget(name)
        changes = facts_differing(f"host {name}", facts_of(known), facts_of(host))
        if changes:
            raise HostError("came back as another", where=name, why="; ".join(each.text for each in changes))
        self._tell(name)
        for planned in self.plan.tuning:
            if planned.host == name:
                tune(planned, self.plan, self.hosts, self._book.journal)
        self._place_programs(name)
        self._deploy(name)

    def _look_last(self) -> None:
        """Write down what figures hang on, after the last block and before anything is put back."""
        self.hosts.lost()  # asks all at once: from here on a dead link says so without being waited for
        for host in self.hosts:
            with suppress(LostError):  # `_part` hears the same
                self._book.ground(self.plan, host, "end")

    def _part(self) -> None:
        """See every host once more; one that is lost by now is left to its guardian."""
        self.hosts.lost()  # as in `_look_last`
        for host in tuple(self.hosts):
            try:
                host.compare_clocks()
                if self.plan.tuning:
                    self._look(host, "restored")
            except LostError as error:
                self._book.lost(host.name, str(error))
                self.hosts.give_up(host.name)
        self.notice_clocks()

    def _look(self, host: Host, stage: str, became: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Write down the kernel settings that the tuning may have changed, and what became of each of its own."""
        mine = [planned for planned in self.plan.tuning if planned.host == host.name]
        found = host.changes.read(sorted({*SYSCTLS, *(s.key for planned in mine for s in planned.settings)}))
        facts: dict[str, Any] = {"sysctls": {key: s.value for key, s in found.items()}}
        if became is not None:
            facts |= {"tuning": became.get(host.name, {}), "nofile": nofile_on(host.name, self.plan.tuning)}
        self._book.facts(host.name, roles_of(self.plan, host.name), stage, facts)

    def _place_programs(self, only: str | None = None) -> None:
        for host, placed in install_programs(self.plan, self.hosts, only).items():
            self._journal("programs-placed", host, placed)

    def _deploy(self, only: str | None = None) -> None:
        for cell in self.plan.cells:
            for host, services in deploy.by_host(cell.services).items() if cell.unsupported is None else ():
                if only in (None, host):
                    placed = deploy.deploy(self.hosts[host], services)
                    configs = {path: text for service in services for path, text in deploy.configs(service)}
                    self._journal("deployed", host, placed, cell_id=cell.cell_id, configs=configs)

    def _journal(self, event: str, host: str, placed: Placed, **more: str | Mapping[str, str]) -> None:
        sent = {"changed": placed.changed, "sent_bytes": placed.sent_bytes}
        self._book.journal.append(event, **more, host=host, **sent)


def install_programs(plan: RunPlan, hosts: Hosts, only: str | None = None) -> dict[str, Placed]:
    """Build what generators need, and have it stand on their hosts, or on `only` that one; what that took, by host.

    Raises HostError, or BenchkitError where a program does not build.
    """
    wanted: dict[str, list[File]] = {}
    for cell in plan.cells:
        for generator in cell.generators if cell.unsupported is None else ():
            mine = wanted.setdefault(generator.host, [])
            mine += [program for program in generator.programs if program not in mine]
    return {
        host: deploy.place(hosts[host], programs)
        for host, programs in wanted.items()
        if programs and only in (None, host)
    }
