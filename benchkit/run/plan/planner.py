"""From a scenario and connected hosts to the plan of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchkit.errors import HostError, InputError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.tuning import sudo_commands
from benchkit.load.tools.registry import get_tool
from benchkit.run.plan.cells import missing_program, plan_cell
from benchkit.run.plan.config_checks import check_configs
from benchkit.run.plan.model import LOAD_ROLE, PlannedCell, RunPlan
from benchkit.run.plan.order import control_cells, ordered
from benchkit.run.plan.placement import HostCapabilities
from benchkit.run.plan.profile_pass import profile_cells, profile_notices, profile_order
from benchkit.run.plan.releases import check_node_releases, check_releases
from benchkit.run.plan.requirements import check_experiment
from benchkit.run.plan.tuning_plan import ground_of, plan_tuning, quotas_not_applied
from benchkit.scenario.cell_load import typed_load
from benchkit.scenario.read import Experiment


def make_plan(experiment: Experiment, hosts: Hosts, seed: int | None = None) -> RunPlan:
    """The plan of a run on these hosts, which are only asked, never changed.

    `seed` replaces the scenario's. Raises InputError for a scenario or an inventory that cannot be run, HostError where
    a host does not answer.
    """
    check_experiment(experiment)
    check_releases(experiment)
    roles = _roles(experiment, hosts.inventory)
    tuning, required = plan_tuning(experiment, roles, hosts)
    grounds = {host.name: ground_of(host, tuning) for host in hosts}
    obstacles: list[HostError] = list(_missing_tools(experiment, roles, grounds))
    obstacles += [
        HostError(sentence, hint="the scenario says that this tuning is required")
        for planned in tuning
        if planned.host in required
        for sentence in planned.sentences()
    ]
    cells: list[PlannedCell] = []
    for cell in experiment.cells:
        try:
            cells.append(plan_cell(experiment, cell, roles, grounds, cells))
        except HostError as error:
            obstacles.append(error)
    check_configs(cells, hosts)
    check_node_releases(cells)
    cells += control_cells(experiment, cells)
    seed = experiment.scenario.seed if seed is None else seed
    planned_trials, said = ordered(experiment, cells, seed)
    return RunPlan(
        experiment=experiment,
        seed=seed,
        roles=roles,
        cells=tuple(cells),
        planned_trials=(*planned_trials, *profile_order(experiment, cells, planned_trials, seed)),
        notices=(
            *said,
            *profile_notices(experiment, cells, grounds),
            *hosts.inventory.limits,
            *(notice for host in hosts for notice in host.notices),
            *(sentence for planned in tuning for sentence in planned.sentences()),
            *quotas_not_applied(experiment.scenario, roles, grounds),
        ),
        obstacles=tuple({str(error): error for error in obstacles}.values()),
        tuning=tuning,
        tuning_required=required,
        sudo=sudo_commands([host.spec for host in hosts], tuning),
        profiled=profile_cells(experiment, cells),
    )


def _roles(experiment: Experiment, inventory: Inventory) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, role in experiment.scenario.roles.items():
        hosts = tuple(host.name for host in inventory.by_role(name))
        if len(hosts) < role.hosts:
            raise InputError(
                f"the scenario needs {role.hosts} host(s) in role {name!r}",
                why=f"the inventory has {len(hosts)}",
                hint=_way_to_roles(experiment, name, inventory),
            )
        found[name] = hosts
    return found


def _way_to_roles(experiment: Experiment, lacking: str, inventory: Inventory) -> str:
    """What gives the hosts that a scenario needs: a line in the inventory's file, or where there is none, another lab."""
    if any(host.written is not None for host in inventory.hosts):
        return f"give a host `roles: [{lacking}]`"
    wanted = (
        f"--host {name}{number or ''}={name}"
        for name, role in experiment.scenario.roles.items()
        for number in range(role.hosts)
    )
    return f"`benchkit lab down`, then `benchkit lab up {' '.join(wanted)}`"


def _missing_tools(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], grounds: Mapping[str, HostCapabilities]
) -> Iterator[HostError]:
    for tool in dict.fromkeys(typed_load(cell, len(roles[LOAD_ROLE])).tool for cell in experiment.cells):
        for host in roles[LOAD_ROLE]:
            if get_tool(tool).program is None and get_tool(tool).binary not in grounds[host].facts.programs:
                yield missing_program(host, get_tool(tool).binary, experiment)
