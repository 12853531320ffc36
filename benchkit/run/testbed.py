"""The testbed of a run: its hosts are tuned and restored, and its services deployed, again after a lost connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from benchkit.agent.settings import Sysctls
from benchkit.errors import BenchkitError, HostError, HostStateError, LostError
from benchkit.hosts.clock import elapsed_s
from benchkit.hosts.connections import RECONNECT_S, Hosts, run_on_hosts
from benchkit.hosts.facts import SYSCTLS
from benchkit.hosts.files import FileChanges
from benchkit.hosts.host import Host, Leftovers
from benchkit.hosts.tuning import TuningPlan, apply
from benchkit.judge.run_differences import fact_differences
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import TrialRow
from benchkit.plan.model import PlannedCell, RunPlan, inventory_facts, used_programs
from benchkit.plan.tuning_plan import nofile_limit
from benchkit.run.found_loads import FoundLoads
from benchkit.run.manifest import roles_of_host
from benchkit.run.recorder import RunRecorder
from benchkit.run.retries import RetryPolicy
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services import container_engine, deploy
from benchkit.services.service import ServiceFile
from benchkit.store.journal import Journal
from benchkit.store.run_log import log_step
from benchkit.units import cores, share

logger = logging.getLogger(__name__)

MAX_RECONNECTS = 10
"""Number of reconnections to a host in one run, after which it is dropped."""


class Testbed:
    """The hosts of a run, prepared before its trials and restored after them."""

    def __init__(self, plan: RunPlan, hosts: Hosts, recorder: RunRecorder, *, reconnect_s: float = RECONNECT_S) -> None:
        """Take hosts that are held for the run, and the longest time to reconnect to a lost one."""
        self.plan = plan
        self.hosts = hosts
        self.retries = RetryPolicy()
        self.lost_hosts: dict[str, str] = {}
        """Hosts that are no longer used, each with the reason."""
        self.found_loads = FoundLoads(recorder.tables.trials(), recorder.tables.load_curves())
        self.recorder = recorder
        self._reconnect_s = reconnect_s
        self._reconnects: dict[str, int] = {}
        self.cell_tuning = CellTuning(plan, hosts, recorder.journal)
        self._has_reported_programs = False
        self._blocks_with_facts: set[tuple[int, int]] = set()

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Tune the hosts and deploy the services; at the end restore all hosts, verified.

        Raises HostError where anything fails before the trials are over. After them no error is raised, because the
        results are usable: the outcome names the hosts that are not restored, or not confirmed.
        """
        for host in self.hosts:
            self._report_leftovers(host.name)
        are_trials_over = False
        outcomes: dict[str, dict[str, str]] = {}
        try:
            for planned in self.plan.tuning:
                outcomes.setdefault(planned.host, {}).update(self._tune(planned))
            if self.plan.whole_tuning:
                for host in self.hosts:
                    self._record_tuning(host, "tuned", outcomes)
                self.recorder.write_host_facts()
            self.recorder.notify("building and deploying")
            self._run_with_retries(self._install_programs)
            self._run_with_retries(self._deploy)
            yield
            are_trials_over = True
            self._record_final_facts()
        finally:
            not_restored = self._restore()
            if not_restored and not are_trials_over:
                raise HostError("\n".join(map(str, not_restored.values())))
            self.recorder.outcome.not_restored |= {name: error.summary for name, error in not_restored.items()}
        self._confirm_restored()

    def _tune(self, planned: TuningPlan) -> dict[str, str]:
        """Apply the tuning of one host; return the outcome of each setting.

        Raises HostError where a host refuses a required setting, contrary to the plan.
        """
        outcomes: dict[str, str] = {setting.key: setting.status for setting in planned.settings}
        if planned.values:
            with log_step(logger, f"tune {', '.join(planned.values)}", planned.host):
                result = apply(self.hosts.kernel_host(planned.host), planned)
            applied = {key: written.outcome for key, written in result.written.items()}
            outcomes.update(applied)
            self.recorder.journal.record("tuned", host=planned.host, outcomes=applied, not_applied=result.sentences)
            self.plan.require_tuning(planned.host, result.sentences)
        return outcomes

    def _restore(self) -> dict[str, HostError]:
        """Restore all settings, verified; return an error for each host on which a change remains.

        Watchdogs restore the hosts that are lost.
        """
        not_restored: dict[str, HostError] = {}
        tuned = [each.host for each in self.plan.whole_tuning if each.values and each.host in self.hosts]
        for name in dict.fromkeys(self.hosts.kernel_host(host).name for host in tuned):
            try:
                with log_step(logger, "restore settings", name):
                    changes = self.hosts[name].changes.restore(own=True)
            except LostError:  # the next request to the host raises the same error
                continue
            except HostError as error:
                not_restored[name] = error
                continue
            failures = [f"{change.text}: {failure}" for change in changes for failure in change.failures]
            settings = [change.text for change in changes]
            logger.info("%s: restored: %s", name, "; ".join(settings) or "nothing was changed")
            self.recorder.journal.record("restored", host=name, settings=settings, failures=failures)
            if failures:
                hint = "the host keeps their record; `benchkit hosts restore` tries again"
                what = "not all settings could be restored"
                not_restored[name] = HostError(what, where=name, why="; ".join(failures), hint=hint)
        return not_restored

    def _run_with_retries(self, step: Callable[[], None]) -> None:
        pauses = self.retries.pauses()
        while True:
            try:
                step()
            except HostStateError as error:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
                logger.info("retrying in %g s: %s", pause_s, error)
                self.recorder.notify(f"{error}\nretrying in {pause_s:g} s")
                time.sleep(pause_s)
            else:
                return

    def recover(self) -> float:
        """Reconnect to the lost hosts and prepare them again; return the length of the interruption in seconds.

        It starts when all hosts last answered, and includes time in which this machine was suspended. A host that
        cannot be reconnected is dropped.
        """
        started_s = time.monotonic()
        lost = self.hosts.unreachable()
        last_seen_s = min((self.hosts[name].link.last_seen_s for name in lost), default=elapsed_s())
        for name in lost:
            self.recorder.notify(f"{name}: connection lost; reconnecting")
            try:
                with log_step(logger, "reconnect", name):
                    self._reconnect(name)
            except HostError as error:
                self.recorder.record_lost_host(name, str(error))
                self.recorder.notify(f"{error}\n{name} cannot be reconnected; the run continues without it")
                self.lost_hosts[name] = str(error)
                self.hosts.drop(name)
            else:
                after_s = time.monotonic() - started_s
                self.recorder.journal.record("host-reconnected", host=name, after_s=after_s)
        return elapsed_s() - last_seen_s

    def report_other_programs(self, block: int, rows: Iterable[TrialRow]) -> None:
        """Report other programs, once, when they used more CPU time in a block than the check noisy-host allows."""
        limit = self.plan.experiment.scenario.thresholds.foreign_cores
        noisy = [row for row in rows if (row.foreign_share or 0.0) > limit]
        if not noisy or self._has_reported_programs:
            return
        self._has_reported_programs = True
        worst = max(noisy, key=lambda row: row.other_program_cores or 0.0)
        if worst.other_program is None or worst.other_program_cores is None:
            who = f"Hidden or ended programs used {share(worst.foreign_share)} of the CPU time of the measured cores"
        else:
            who = f"Another program, {worst.other_program}, used {cores(worst.other_program_cores)}"
        self.recorder.notify(f"{who} in block {block}: its trials are used with care, and intervals are wider.")

    def why_unavailable(self, cell: PlannedCell) -> str | None:
        """Return why a cell can no longer run, such as a lost host or a refused setting; None if it can."""
        for name in (*(service.host for service in cell.services), *(each.host for each in cell.generators)):
            if name in self.lost_hosts:
                return self.lost_hosts[name]
        return self.cell_tuning.not_applied.get(cell.cell_id)

    def cell_of(self, planned_trial: PlannedTrial) -> PlannedCell:
        """Return the cell of a trial with its load as found by the run. Raises InputError where it is unknown."""
        cell, notes = self.found_loads.cell_of(planned_trial, self.plan)
        for note in notes:
            self.recorder.show_note(note)
        return cell

    def record_block_facts(self, planned_trial: PlannedTrial) -> None:
        """Record the facts of the hosts before the first trial of a block. Raises HostError."""
        block = planned_trial.block, planned_trial.round
        if block not in self._blocks_with_facts:
            hosts = list(self.hosts)
            for host, facts in zip(hosts, run_on_hosts(hosts, self._read_facts), strict=True):
                self._record_facts(host, f"block {planned_trial.block}", facts)
            self._blocks_with_facts.add(block)

    def _read_facts(self, host: Host) -> RecordedFacts:
        """Return the facts that affect results and may change between blocks. Raises HostError."""
        keys = {
            setting.key for planned in self.plan.tuning if planned.host == host.name for setting in planned.settings
        }
        facts = host.variable_facts(keys, used_programs(self.plan, host))
        of_cells = self._cell_settings(host)  # those of the previous trial, which each switch verifies
        sysctls = {key: value for key, value in facts.sysctls.items() if key not in of_cells}
        return facts.model_copy(update={"sysctls": sysctls})

    def _record_facts(self, host: Host, stage: str, facts: RecordedFacts) -> None:
        self.recorder.record_host_facts(host.name, roles_of_host(self.plan, host.name), stage, facts)

    def _cell_settings(self, host: Host) -> set[str]:
        return {
            key
            for cell in self.plan.cells
            for name, values in cell.sysctls.items()
            if name in self.hosts and self.hosts.kernel_host(name).name == self.hosts.kernel_host(host.name).name
            for key in values
        }

    def _record_tuning(self, host: Host, stage: str, outcomes: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Record the kernel settings that tuning may have changed, and the outcomes if they are given."""
        planned = [each for each in self.plan.whole_tuning if each.host == host.name]
        sysctls = host.call(Sysctls.read, sorted({*SYSCTLS, *(s.key for each in planned for s in each.settings)}))
        values = {key: setting.value for key, setting in sysctls.items()}
        facts = RecordedFacts(sysctls=values)
        if outcomes is not None:
            nofile = nofile_limit(host.name, self.plan.tuning)
            facts = RecordedFacts(sysctls=values, tuning=outcomes.get(host.name, {}), nofile=nofile)
        self._record_facts(host, stage, facts)

    def _report_leftovers(self, name: str) -> None:
        leftovers = self.hosts.leftovers.get(name, Leftovers())
        self.recorder.record_leftovers(name, leftovers)
        texts = [f"{name}: restored after an earlier run: {report}" for report in leftovers.reports]
        texts += [f"{name}: left by an earlier run: {change.text}: {change.how}" for change in leftovers.restored]
        for text in texts:
            logger.info("%s", text)
            self.recorder.notify(text)

    def _reconnect(self, name: str) -> None:
        self._reconnects[name] = self._reconnects.get(name, 0) + 1
        if self._reconnects[name] > MAX_RECONNECTS:
            raise HostError(f"connection lost {self._reconnects[name]} times", where=name)
        before = self.hosts[name]
        host = self.hosts.reconnect(name, self._reconnect_s)
        used = used_programs(self.plan, host)
        readings = (inventory_facts(reading).with_programs(used) for reading in (before, host))
        changes = fact_differences(f"host {name}", *readings)
        if changes:
            raise HostError(
                "the host has changed since the run started", where=name, why="; ".join(each.text for each in changes)
            )
        self._report_leftovers(name)
        self.cell_tuning.forget(name)
        for planned in self.plan.tuning:
            if planned.host == name:
                self._tune(planned)
        self._install_programs(name)
        self._deploy(name)

    def _record_final_facts(self) -> None:
        self.hosts.unreachable()  # asks all hosts at once, so that no later request waits for a dead link
        for host in self.hosts:
            with suppress(LostError):  # `_confirm_restored` gets the same error
                self._record_facts(host, "end", self._read_facts(host))

    def _confirm_restored(self) -> None:
        """Read the settings of each host once more; the watchdog of a lost host restores it."""
        self.hosts.unreachable()  # as in `_record_final_facts`
        for host in tuple(self.hosts):
            try:
                host.compare_clocks()
                if self.plan.whole_tuning:
                    self._record_tuning(host, "restored")
            except LostError as error:
                self.recorder.record_lost_host(host.name, str(error))
                self.hosts.drop(host.name)

    def _install_programs(self, only: str | None = None) -> None:
        for host, placed in install_programs(self.plan, self.hosts, only).items():
            self.recorder.journal.record(
                "programs-placed", host=host, changed=placed.changed, sent_bytes=placed.sent_bytes
            )

    def _deploy(self, only: str | None = None) -> None:
        for cell in self.plan.cells:
            for host, services in deploy.group_by_host(cell.services).items() if cell.unsupported is None else ():
                if only in (None, host):
                    with log_step(
                        logger, f"deploy {', '.join(each.name for each in services)} of {cell.cell_id}", host
                    ):
                        placed = deploy.deploy(self.hosts[host], services)
                    for service in services:
                        if service.container is not None and service.container.archive is None:
                            pulled = container_engine.pulled_image(self.hosts[host], service.container)
                            self.recorder.record_pulled_image(cell.cell_id, service.name, pulled)
                    configs = {path: text for service in services for path, text in deploy.rendered_configs(service)}
                    self.recorder.journal.record(
                        "deployed",
                        cell_id=cell.cell_id,
                        host=host,
                        configs=configs,
                        changed=placed.changed,
                        sent_bytes=placed.sent_bytes,
                    )


def install_programs(plan: RunPlan, hosts: Hosts, only: str | None = None) -> dict[str, FileChanges]:
    """Build and install the programs of generators on all hosts, or on `only` one; return the changed files by host.

    Raises HostError, or BenchkitError where a program does not build.
    """
    wanted: dict[str, list[ServiceFile]] = {}
    for cell in plan.cells:
        for generator in cell.generators if cell.unsupported is None else ():
            programs = wanted.setdefault(generator.host, [])
            programs += [program for program in generator.programs if program not in programs]
    installed = {}
    for host, programs in wanted.items():
        if programs and only in (None, host):
            with log_step(logger, "install programs of generators", host):
                installed[host] = deploy.place_files(hosts[host], programs)
    return installed


Settings = tuple[TuningPlan, ...]


class CellTuning:
    """Kernel settings of cells, which override those of the run; one cell's settings are applied at a time."""

    def __init__(self, plan: RunPlan, hosts: Hosts, journal: Journal) -> None:
        self._plan = plan
        self._hosts = hosts
        self._journal = journal
        self._applied: dict[str, Settings | None] = {}
        self.not_applied: dict[str, str] = {}
        """Cells with a setting that a host refused, contrary to the plan, each with the reason."""

    def switch_to(self, cell: PlannedCell) -> None:
        """Restore the settings of the previous cell and apply those of this one, verified, unless they are equal.

        Raises HostError where a setting cannot be restored or applied, BenchkitError where the scenario requires it.
        """
        wanted: dict[str, Settings] = {}
        for planned in cell.tuning:
            if planned.values and planned.host in self._hosts:
                name = self._hosts.kernel_host(planned.host).name
                wanted[name] = (*wanted.get(name, ()), planned)
        for name in sorted({*wanted, *self._applied}):
            if name in self._hosts and self._applied.get(name, ()) != wanted.get(name, ()):
                self._switch(name, wanted.get(name, ()), cell)

    def forget(self, host: str) -> None:
        """Forget the settings of a lost host, which its watchdog has restored."""
        self._applied.pop(host, None)

    def _switch(self, name: str, wanted: Settings, cell: PlannedCell) -> None:
        host, started_s = self._hosts[name], time.monotonic()
        self._applied[name] = None
        with log_step(logger, f"switch to the kernel settings of {cell.cell_id}", name):
            restored = host.changes.restore(own=True, scope="cell")
            results = () if any(each.failures for each in restored) else [apply(host, each, "cell") for each in wanted]
        not_applied = [f"{name}: {each.text}: {failure}" for each in restored for failure in each.failures]
        not_applied += [sentence for result in results for sentence in result.sentences]
        self._journal.record(
            "tuning-switched",
            cell_id=cell.cell_id,
            host=name,
            restored=[each.text for each in restored],
            outcomes={key: written.outcome for result in results for key, written in result.written.items()},
            not_applied=not_applied,
            took_s=time.monotonic() - started_s,
        )
        if not_applied:
            reason = "; ".join(not_applied)
            if self._plan.experiment.requires_tuning(cell.spec.levels):
                raise BenchkitError(reason, hint="the scenario requires this tuning")
            self.not_applied[cell.cell_id] = reason
            raise HostError(reason, where=cell.cell_id, hint="the other trials of this cell are skipped")
        self._applied[name] = wanted
