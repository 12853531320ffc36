"""A scenario's stack kept up on its hosts without load: brought up, proved by those who use it, looked at, taken down.

What keeps it is the guardian of each host, which holds the host and puts everything back when it is told to, however
long after the controller has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError, LostError, suggestion
from benchkit.hosts import tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.run.plan.model import PlannedCell, RunPlan
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.experiment import Experiment
from benchkit.services import deploy
from benchkit.services.backend import Service

Say = Callable[[str], None]
"""Is told each stage."""


LISTENING_S = 0.5
"""Who is up takes connections at once."""


@dataclass(frozen=True)
class ServiceStatus:
    """A service as it is found."""

    service: Service
    is_held: bool
    """Whether its host is held for it."""
    is_listening: bool


def holder_name(experiment: Experiment) -> str:
    """Under which name hosts are held, for whoever finds them held."""
    return f"service {experiment.scenario.name}"


def select_cell(plan: RunPlan, wanted: str | None = None) -> PlannedCell:
    """The cell whose stack is kept up: as wanted, else as the scenario says, else its baseline.

    Raises InputError where there is none, or these hosts cannot carry it.
    """
    named = [cell.cell_id for cell in plan.cells]
    given = plan.experiment.scenario.service
    if wanted is not None:
        found = [cell for cell in plan.cells if cell.cell_id == wanted]
        if not found:
            raise InputError(f"no cell {wanted!r}", where="--cell", why=suggestion(wanted, named))
    elif given is not None:
        found = [cell for cell in plan.cells if given.items() <= cell.cell.levels.items()]
        if not found:
            levels = ", ".join(f"{name}: {level}" for name, level in given.items())
            raise InputError(
                f"no cell of this scale has {levels}", where="service", why=f"there are: {'; '.join(named)}"
            )
    else:
        found = [plan.cell(plan.experiment.baseline)]
    if found[0].unsupported is not None:
        raise InputError(found[0].unsupported, where=found[0].cell_id)
    return found[0]


def up(plan: RunPlan, cell: PlannedCell, hosts: Hosts, say: Say, *, apply: bool = False) -> None:
    """Deploy and start the services of a cell, have their clients prove them, and leave them up; fine if they are already.

    With `apply` the clients' machines keep the settings of their go command, also of a service that is up already.
    Raises HostError where a host is held, lacks something, or a service does not come up or prove itself: then nothing
    stays, and everything is put back.
    """
    for obstacle in plan.obstacles:
        raise obstacle
    if _is_up_already(plan, cell, hosts):
        say(f"{holder_name(plan.experiment)} is up already")
        if apply:
            _apply_later(plan, cell, hosts, say)
        return
    hosts.hold(holder_name(plan.experiment))
    plan = make_plan(plan.experiment, hosts, plan.seed)  # anew: until now they may have been as another run tuned them
    cell = plan.cell(cell.cell_id)
    _require_machines_of_their_own(hosts)
    _tune(plan, hosts)
    say("building and deploying")
    for host, services in deploy.by_host(cell.services).items():
        deploy.deploy(hosts[host], services)
        deploy.require_free(hosts[host], services)
    logs = PurePosixPath("services") / plan.experiment.scenario.name
    for service in cell.services:
        say(f"{'proving' if service.client else 'starting'}: {service.name} on {service.host}")
        _start(service, hosts[service.host], logs)
        if apply:
            _apply(service, hosts[service.host])
    for name in _staying(plan, cell, apply=apply):
        hosts[name].changes.keep()


def _apply(service: Service, host: Host) -> None:
    if service.go_settings is not None:
        host.changes.go_settings(service.go_settings.go, service.go_settings.values)


def _apply_later(plan: RunPlan, cell: PlannedCell, hosts: Hosts, say: Say) -> None:
    """Have the clients' machines keep the settings of a service that came up without; fine where they do already.

    Raises HostError where such a machine is held already, for this service with something else to be put back, or by others.
    """
    name, clients = holder_name(plan.experiment), [each for each in cell.services if each.go_settings is not None]
    lacking = {each.host for each in clients if not _has_go_settings(hosts[each.host])}
    if held := sorted(host for host, mine in _held(name, hosts).items() if mine and host in lacking):
        raise HostError(
            f"{name} is up already, without the settings of the go command",
            where=", ".join(held),
            hint=f"take it down first (benchkit service down {plan.experiment.scenario.name}), then up --apply",
        )
    Hosts(hosts.inventory, [hosts[host] for host in sorted(lacking)]).hold(name)
    for service in clients:
        if service.host in lacking:
            say(f"setting the go command of {service.host}")
            _apply(service, hosts[service.host])
    for host in sorted(lacking):
        hosts[host].changes.keep()


def _has_go_settings(host: Host) -> bool:
    return any((each.kind, each.state) == ("go-settings", "other") for each in host.changes.records())


def _is_up_already(plan: RunPlan, cell: PlannedCell, hosts: Hosts) -> bool:
    """Whether all of it stands. Raises HostError where a part does: what is held for it would be taken down for this one."""
    standing = status(plan.experiment, cell, hosts)
    if all(each.is_held and each.is_listening for each in standing):
        return True
    if held := sorted({each.service.host for each in standing if each.is_held}):
        name = plan.experiment.scenario.name
        raise HostError(
            f"{holder_name(plan.experiment)} is up already, and not as it should be",
            where=", ".join(held),
            hint=f"take it down first: benchkit service down {name}",
        )
    return False


def _tune(plan: RunPlan, hosts: Hosts) -> None:
    for planned in plan.tuning:
        short = tuning.apply(hosts[planned.host].changes, planned).sentences
        plan.require_tuning(planned.host, short)


def _start(service: Service, host: Host, logs: PurePosixPath) -> None:
    """Start a service that stays; one that uses the others has done its work when it is up."""
    host.files.scratch(logs)
    started = deploy.start(host, service, logs, stays=not service.client)
    if service.client:
        deploy.stop(host, [started])
        for folder in service.scratch:
            host.files.remove(folder)


def status(experiment: Experiment, cell: PlannedCell, hosts: Hosts) -> tuple[ServiceStatus, ...]:
    """The services of a cell as they are found. Raises HostError where a host does not answer."""
    held = _held(holder_name(experiment), hosts)
    found = []
    for service in cell.services:
        if service.client:
            continue
        found.append(ServiceStatus(service, held[service.host], _listens(service, hosts[service.host])))
    return tuple(found)


def _listens(service: Service, host: Host) -> bool:
    try:
        host.sockets.wait_open(deploy.socket_of(service.endpoint), LISTENING_S)
    except LostError:
        raise
    except HostError:
        return False
    return True


def down(experiment: Experiment, hosts: Hosts) -> tuple[str, ...]:
    """Take a service down and have its hosts put back; the hosts that were held for it.

    Raises HostError, naming the host, where something cannot be put back.
    """
    name = holder_name(experiment)
    held = _held(name, hosts)
    failures = [
        failure
        for found in hosts.each(lambda host: _released(host, name) if held[host.name] else [])
        for failure in found
    ]
    if failures:
        raise HostError("not everything could be put back", why="; ".join(failures), hint="`benchkit hosts restore`")
    return tuple(host for host, mine in held.items() if mine)


def _released(host: Host, name: str) -> list[str]:
    """Have a host put back what was held for the service; what it could not, as its guardian wrote it down."""
    host.changes.release()
    failures = []
    for report in host.changes.state().reports:
        if report.run == name and not report.failures:
            host.changes.forget(report)
        elif report.run == name:
            failures += [f"{host.name}: {failure}" for failure in report.failures]
    return failures


def _held(name: str, hosts: Hosts) -> Mapping[str, bool]:
    """Which hosts are held for the service of that name."""
    holders = hosts.each(lambda host: (host.name, host.changes.state().holder))
    return {host: holder is not None and holder.run == name for host, holder in holders}


def _staying(plan: RunPlan, cell: PlannedCell, *, apply: bool) -> list[str]:
    """The hosts on which something stays: a service, a setting."""
    services = [service.host for service in cell.services if apply or not service.client]
    tuned = [planned.host for planned in plan.tuning if planned.values]
    return list(dict.fromkeys([*services, *tuned]))


def _require_machines_of_their_own(hosts: Hosts) -> None:
    """Raise InputError where two hosts are one machine: the guardian that holds it could let go of one of them only."""
    holders: dict[tuple[str | None, int], str] = {}
    for host in hosts:
        holder = host.changes.state().holder
        if holder is None:
            continue
        other = holders.setdefault((host.facts.boot_id, holder.pid), host.name)
        if other != host.name and hosts[other].facts.hostname == host.facts.hostname:
            raise InputError(
                f"{other} and {host.name} are one machine",
                why="what stays up is kept by one guardian a machine",
                hint="give one host of the inventory the roles of both",
            )
