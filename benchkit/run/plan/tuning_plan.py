"""What the tuning of a scenario comes to on the hosts of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchkit.errors import InputError
from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.known_sysctls import advice, is_made_up
from benchkit.hosts.tuning import TuningPlan
from benchkit.run.plan.placement import HostCapabilities, quota_not_applied
from benchkit.scenario.model import Scenario
from benchkit.scenario.read import Experiment
from benchkit.scenario.tuning_profiles import UsedProfile, profiles_of


def plan_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """What the scenario's tuning profiles come to on its hosts, and the hosts where they are required.

    Raises InputError for a setting that neither Linux nor any of the hosts has, naming the profile's file and line.
    """
    plans: list[TuningPlan] = []
    required: set[str] = set()
    for used in profiles_of(experiment.scenario, experiment.document):
        names = dict.fromkeys(host for role in used.use.roles for host in roles[role])
        mine = [_plan(used, hosts[name], hosts) for name in names]
        _refuse_made_up(used, mine)
        plans += mine
        if used.use.required:
            required.update(names)
    return tuple(plans), frozenset(required)


def ground_of(host: Host, plans: Iterable[TuningPlan]) -> HostCapabilities:
    """A host as planning sees it: as it is, and as its tuning will make it."""
    mine = [planned for planned in plans if planned.host == host.name]
    tuned = {key: value for planned in mine for key, value in planned.values.items()}
    return HostCapabilities(host.spec, host.facts, tuned, nofile_on(host.name, mine))


def quotas_not_applied(
    scenario: Scenario, roles: Mapping[str, tuple[str, ...]], grounds: Mapping[str, HostCapabilities]
) -> Iterator[str]:
    """What the hosts do not hold of the quotas of the scenario's roles, for people."""
    for name, role in scenario.roles.items():
        for host in roles[name]:
            said = quota_not_applied(name, role.quota, grounds[host])
            if said is not None:
                yield said


def nofile_on(host: str, plans: Iterable[TuningPlan]) -> int | None:
    """The open files that tuning lets each process of ours have on a host; None: as many as the host does."""
    limits = [planned.nofile for planned in plans if planned.host == host and planned.nofile is not None]
    return next((limit.wanted for limit in reversed(limits) if limit.why_not is None), None)


def _plan(used: UsedProfile, host: Host, hosts: Hosts) -> TuningPlan:
    wanted = used.profile.limits.nofile
    return host_tuning.plan(
        host.spec,
        used.profile.sysctl,
        host.changes.read(used.profile.sysctl),
        root=host.facts.root,
        can_sudo=host.facts.can_sudo,
        not_isolated=hosts.inventory.not_isolated,
        nofile=host_tuning.file_limit(host.processes, wanted, host.facts.nofile_hard) if wanted else None,
    )


def _refuse_made_up(used: UsedProfile, plans: Iterable[TuningPlan]) -> None:
    """A setting that a kernel no longer has, or has not yet, is left out and said; one that never was is a mistake."""
    there = {setting.key for planned in plans for setting in planned.settings if setting.found is not None}
    faults = [
        used.document.fault(("sysctl", key), f"no such setting; {advice(key)}")
        for key in used.profile.sysctl
        if key not in there and is_made_up(key)
    ]
    if faults:
        raise InputError("\n".join(faults))
