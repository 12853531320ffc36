"""What the tuning of a scenario comes to on the hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connect import Hosts
from benchkit.hosts.tuning import TuningPlan
from benchkit.scenario.model import Scenario
from benchkit.scenario.tuning import read_profile


def plan_tuning(
    scenario: Scenario, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """What the scenario's tuning profiles come to on its hosts, and the hosts where they are required."""
    plans: list[TuningPlan] = []
    required: set[str] = set()
    for use in scenario.tuning:
        profile = read_profile(use.profile).sysctl
        for name in dict.fromkeys(host for role in use.roles for host in roles[role]):
            host = hosts[name]
            plans.append(
                host_tuning.plan(
                    host.spec,
                    profile,
                    host.changes.read(profile),
                    root=host.facts.root,
                    can_sudo=host.facts.can_sudo,
                    not_isolated=hosts.inventory.not_isolated,
                )
            )
            if use.required:
                required.add(name)
    return tuple(plans), frozenset(required)
