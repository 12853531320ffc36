"""The tuning of a run: the scenario's tuning profiles on the hosts of their roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.errors import HostError, InputError
from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.known_sysctls import is_unknown, spelling_hint
from benchkit.hosts.tuning import TuningPlan
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.tuning_profiles import UsedProfile


def plan_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """Return the tuning of the hosts, and the names of the hosts on which it is required.

    Raises InputError, naming the profile's file and line, for a setting that neither Linux nor any of the hosts has.
    """
    plans: list[TuningPlan] = []
    required: set[str] = set()
    for used in experiment.tuning:
        names = dict.fromkeys(host for role in used.use.roles for host in roles[role])
        of_profile = [_plan(used, hosts[name], hosts) for name in names]
        _refuse_unknown_settings(used, of_profile)
        plans += of_profile
        if used.use.required:
            required.update(names)
    return tuple(plans), frozenset(required)


def tuning_required_error(not_applied: str) -> HostError:
    """Return the error for a setting that is required and not applied, as the sentence `not_applied` says."""
    return HostError(not_applied, hint="the scenario requires this tuning")


def nofile_limit(host: str, plans: Iterable[TuningPlan]) -> int | None:
    """Return the limit of open files that tuning sets on a host for benchkit's processes, or None if it sets none."""
    limits = [plan.nofile for plan in plans if plan.host == host and plan.nofile is not None]
    return next((limit.wanted for limit in reversed(limits) if limit.why_not is None), None)


def _plan(used: UsedProfile, host: Host, hosts: Hosts) -> TuningPlan:
    wanted = used.profile.limits.nofile
    return host_tuning.plan(
        host.spec,
        used.profile.sysctl,
        host.changes.read_sysctls(used.profile.sysctl),
        root=host.facts.root,
        can_sudo=host.facts.can_sudo,
        not_isolated=hosts.inventory.not_isolated,
        nofile=host_tuning.file_limit(host.processes, wanted, host.facts.nofile_hard) if wanted else None,
    )


def _refuse_unknown_settings(used: UsedProfile, plans: Iterable[TuningPlan]) -> None:
    """Raise InputError for settings that no kernel ever had; those of other kernel versions are only reported."""
    existing = {setting.key for plan in plans for setting in plan.settings if setting.found is not None}
    faults = [
        used.source.fault(("sysctl", key), f"no such setting; {spelling_hint(key)}")
        for key in used.profile.sysctl
        if key not in existing and is_unknown(key)
    ]
    if faults:
        raise InputError("\n".join(faults))
