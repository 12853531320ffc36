"""A scenario's stack that stays up without load: `benchkit service up`, `status` and `down`.

The watchdog of each host keeps the stack up and holds the host after the controller has disconnected. At `down` it
restores everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.agent.files import FileStore
from benchkit.agent.records import Records
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.errors import HostError, InputError, LostError, raise_first, suggestion
from benchkit.hosts import tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.plan.planner import make_plan
from benchkit.scenario.experiment import Experiment
from benchkit.services import deploy
from benchkit.services.service import Service

Notify = Callable[[str], None]
"""Function that reports each step to the user."""

LISTENING_TIMEOUT_S = 0.5
"""Timeout of a connection to a service: a running one accepts it at once."""


@dataclass(frozen=True)
class ServiceStatus:
    """State of a service on its host."""

    service: Service
    is_held: bool
    """True if the host is held for the stack of this service."""
    is_listening: bool

    @property
    def is_up(self) -> bool:
        """True if the service accepts connections and its host is held for it."""
        return self.is_held and self.is_listening


def holder_name(scenario: str) -> str:
    """Return the name that holds the hosts of a scenario's stack; messages about hosts in use show it."""
    return f"service {scenario}"


def select_cell(plan: RunPlan, wanted: str | None = None) -> PlannedCell:
    """Return the cell whose stack stays up: `wanted`, else the one that the scenario names, else the baseline.

    Raises InputError where there is no such cell, or these hosts cannot run it.
    """
    cell_ids = [cell.cell_id for cell in plan.cells]
    levels = plan.experiment.scenario.service
    if wanted is not None:
        matching = [cell for cell in plan.cells if cell.cell_id == wanted]
        if not matching:
            raise InputError(f"no cell {wanted!r}", where="--cell", why=suggestion(wanted, cell_ids))
    elif levels is not None:
        matching = [cell for cell in plan.cells if levels.items() <= cell.spec.levels.items()]
        if not matching:
            text = ", ".join(f"{name}: {level}" for name, level in levels.items())
            raise InputError(
                f"no cell of this scale has {text}", where="service", why=f"the cells are: {'; '.join(cell_ids)}"
            )
    else:
        matching = [plan.cell(plan.experiment.baseline)]
    if matching[0].unsupported is not None:
        raise InputError(matching[0].unsupported, where=matching[0].cell_id)
    return matching[0]


def up(plan: RunPlan, cell: PlannedCell, hosts: Hosts, notify: Notify) -> None:
    """Deploy and start the services of a cell, run its verifiers, and leave the other services up. Idempotent.

    Raises HostError where a host is in use or lacks something, a service does not start, or a verifier finds a fault.
    All hosts are restored then.
    """
    name = holder_name(plan.experiment.scenario.name)
    if _is_up(plan, cell, hosts):
        notify(f"{name} is already up")
        return
    hosts.lock(name)
    # Facts from before the hold may show the settings of another run, so the plan is made again.
    plan = make_plan(plan.experiment, hosts, plan.seed)
    cell = plan.cell(cell.cell_id)
    _require_distinct_machines(hosts)
    _tune(plan, cell, hosts)
    notify("building and deploying")
    for host, services in deploy.group_by_host(cell.services).items():
        deploy.deploy(hosts[host], services)
        deploy.require_ports_free(hosts[host], services)
    logs = PurePosixPath("services") / plan.experiment.scenario.name
    for service in cell.services:
        notify(f"{'verifying with' if service.is_verifier else 'starting'} {service.name} on {service.host}")
        _start(service, hosts[service.host], logs)
    with_services = [service.host for service in cell.services if not service.is_verifier]
    tuned = [planned.host for planned in (*plan.tuning, *cell.tuning) if planned.values]
    for host in dict.fromkeys([*with_services, *tuned]):
        hosts[host].call(WatchdogLink.keep)


def _is_up(plan: RunPlan, cell: PlannedCell, hosts: Hosts) -> bool:
    """Return True if the whole stack is up. Raises HostError if hosts are held for it and a part is not up."""
    states = status(plan.experiment, cell, hosts)
    if all(each.is_up for each in states):
        return True
    if held := sorted({each.service.host for each in states if each.is_held}):
        raise HostError(
            f"{holder_name(plan.experiment.scenario.name)} is already up, but incomplete or with other settings",
            where=", ".join(held),
            hint=f"take it down first: benchkit service down {plan.experiment.scenario.name}",
        )
    return False


def _tune(plan: RunPlan, cell: PlannedCell, hosts: Hosts) -> None:
    for planned in plan.tuning:
        failures = tuning.apply(hosts[planned.host], planned).sentences
        plan.require_tuning(planned.host, failures)
    for planned in cell.tuning:
        failures = tuning.apply(hosts[planned.host], planned).sentences
        raise_first([HostError(each) for each in failures])


def _start(service: Service, host: Host, logs: PurePosixPath) -> None:
    """Start a service; stop a verifier as soon as it accepts connections, because it is done then."""
    host.call(FileStore.mkdir_temporary, logs)
    started = deploy.start(host, service, logs, stays=not service.is_verifier)
    if service.is_verifier:
        deploy.stop(host, [started])
        for folder in service.scratch_folders:
            host.call(FileStore.remove, folder)


def status(experiment: Experiment, cell: PlannedCell, hosts: Hosts) -> tuple[ServiceStatus, ...]:
    """Return the state of the services of a cell that stay up. Raises HostError where a host does not answer."""
    name = holder_name(experiment.scenario.name)
    holders = dict(hosts.map(lambda host: (host.name, host.call(Undo.traces).holder)))
    held = {host for host, holder in holders.items() if holder is not None and holder.run == name}
    return tuple(
        ServiceStatus(service, service.host in held, _is_listening(service, hosts[service.host]))
        for service in cell.services
        if not service.is_verifier
    )


def _is_listening(service: Service, host: Host) -> bool:
    try:
        host.sockets.wait_open(deploy.socket_of(service.endpoint), LISTENING_TIMEOUT_S)
    except LostError:
        raise
    except HostError:
        return False
    return True


def take_down(name: str, hosts: Hosts) -> tuple[str, ...]:
    """Take down the stack of this name and restore its hosts; return the hosts on which it was up.

    Records on the hosts lead to the processes of a killed watchdog. Raises HostError, naming the host, where a process
    cannot be stopped or a change cannot be restored.
    """
    results = hosts.map(lambda host: (host.name, *_take_down(host, name)))
    failures = [f"{host}: {failure}" for host, _, failures in results for failure in failures]
    if failures:
        raise HostError(
            "not everything could be stopped and restored",
            why="; ".join(failures),
            hint="`benchkit hosts restore` tries again; `benchkit hosts check` lists what is left",
        )
    return tuple(host for host, was_up, _ in results if was_up)


def _take_down(host: Host, name: str) -> tuple[bool, list[str]]:
    """Stop a stack on a host, even if its watchdog was killed; return True if it was up, and the failures."""
    holder = host.call(Undo.traces).holder
    is_held = holder is not None and holder.run == name
    if is_held:
        host.call(WatchdogLink.release)
    state = host.call(Undo.traces)
    failures: list[str] = []
    for report in state.reports:
        if report.run == name and not report.failures:
            host.call(Records.delete_report, report.name)
        elif report.run == name:
            failures += report.failures
    abandoned = [record for record in state.records if record.state == "abandoned"]
    if abandoned:
        restored = [change for change in host.changes.restore() if change.how != "kept"]
        failures += [failure for change in restored for failure in change.failures]
    return is_held or any(record.kind == "process" for record in abandoned), failures


def _require_distinct_machines(hosts: Hosts) -> None:
    holders: dict[tuple[str | None, int], str] = {}
    for host in hosts:
        holder = host.call(Undo.traces).holder
        if holder is None:
            continue
        other = holders.setdefault((host.facts.boot_id, holder.pid), host.name)
        if other != host.name and hosts[other].facts.hostname == host.facts.hostname:
            raise InputError(
                f"{other} and {host.name} are one machine",
                why="a machine has one watchdog, which keeps the services of one host",
                hint=_one_host_hint(hosts),
            )


def _one_host_hint(hosts: Hosts) -> str:
    if any(host.spec.written is not None for host in hosts):
        return "give one host of the inventory the roles of both"
    roles = dict.fromkeys(role for host in hosts for role in host.spec.roles)
    return f"`benchkit lab down`, then `benchkit lab up --host all={','.join(roles)}`"
