"""The tuning of a run: the scenario's tuning files on the hosts of their roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from benchkit.agent.settings import Sysctls
from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan
from benchkit.scenario.experiment import Experiment, SysctlValue, UsedTuning


def plan_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """Return the tuning of the hosts for the whole run, and the names of the hosts on which it is required."""
    tunings = experiment.run_tuning
    plans = tuple(_plan_together(tunings, roles, hosts, {}))
    required = (host for used in tunings if used.use.required for role in used.use.roles for host in roles[role])
    return plans, frozenset(required)


def plan_cell_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts, run_tuning: Iterable[TuningPlan]
) -> Mapping[str, tuple[TuningPlan, ...]]:
    """Return the tuning of each cell by its id; it overrides that of the run."""
    tuned: dict[str, dict[str, str]] = {}
    for planned in run_tuning:
        tuned.setdefault(hosts.kernel_host(planned.host).name, {}).update(planned.values)
    tunings = {cell.cell_id: experiment.cell_tuning(cell.levels) for cell in experiment.cells}
    plans: dict[tuple[int, ...], tuple[TuningPlan, ...]] = {}
    for used in tunings.values():
        key = tuple(map(id, used))
        if key not in plans:
            plans[key] = tuple(_plan_together(used, roles, hosts, tuned))
    return {cell_id: plans[tuple(map(id, used))] for cell_id, used in tunings.items()}


def _plan_together(
    tunings: Sequence[UsedTuning],
    roles: Mapping[str, tuple[str, ...]],
    hosts: Hosts,
    tuned: Mapping[str, Mapping[str, str]],
) -> Iterator[TuningPlan]:
    """Yield the tuning of each host by all of these tuning files; a later one overrides an earlier one."""
    for name in dict.fromkeys(host for used in tunings for role in used.use.roles for host in roles[role]):
        of_host = [used.settings for used in tunings if any(name in roles[role] for role in used.use.roles)]
        wanted = {key: value for settings in of_host for key, value in settings.sysctl.items()}
        limits = [settings.limits.nofile for settings in of_host if settings.limits.nofile is not None]
        of_kernel = tuned.get(hosts.kernel_host(name).name, {})
        yield plan_settings(wanted, name, hosts, nofile=limits[-1] if limits else None, tuned=of_kernel)


def nofile_limit(host: str, plans: Iterable[TuningPlan]) -> int | None:
    """Return the limit of open files that tuning sets on a host for benchkit's processes, or None if it sets none."""
    limits = [plan.nofile for plan in plans if plan.host == host and plan.nofile is not None]
    return next((limit.wanted for limit in reversed(limits) if limit.why_not is None), None)


def plan_settings(
    wanted: Mapping[str, SysctlValue],
    name: str,
    hosts: Hosts,
    *,
    nofile: int | None = None,
    tuned: Mapping[str, str] = MappingProxyType({}),
) -> TuningPlan:
    """Return the plan of kernel settings and of the limit of open files on a host, after `tuned` values are set."""
    host = hosts[name]
    found = host.call(Sysctls.read, list(wanted))
    return host_tuning.plan(
        host.spec,
        wanted,
        {key: replace(sysctl, value=tuned.get(key, sysctl.value)) for key, sysctl in found.items()},
        root=host.facts.root,
        can_sudo=host.facts.can_sudo,
        not_isolated=hosts.inventory.not_isolated,
        nofile=host_tuning.file_limit(host.processes, nofile, host.facts.nofile_hard) if nofile else None,
    )
