"""The ports that a run reserves on its hosts: on values, and on the hosts of a lab."""

from __future__ import annotations

import pytest

from benchkit.agent.settings import Sysctls
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from benchkit.plan.tuning_plan import PORT_RANGE, RESERVED_PORTS
from benchkit.scenario.read import read_experiment


def test_a_tuned_range_of_ports_reserves_those_of_the_services(lab: Lab) -> None:
    """Plan, apply and restore a profile that starts the range at 1025."""
    with connect_all(lab.inventory()) as hosts:
        if not hosts["sut"].facts.root or RESERVED_PORTS in hosts.inventory.not_isolated:
            pytest.skip("hosts of this user's lab have no settings of their own")
        tuned = [each for each in make_plan(read_experiment("nginx-vs-go"), hosts).tuning if each.host == "sut"]
        values = {key: value for each in tuned for key, value in each.values.items()}
        assert values[PORT_RANGE] == "1025 65535"
        assert "8080" in values[RESERVED_PORTS]
        for each in tuned:
            hosts["sut"].call(Sysctls.write, each.values)
        read = hosts["sut"].call(Sysctls.read, [RESERVED_PORTS])
        assert read[RESERVED_PORTS].value == values[RESERVED_PORTS], "written as the kernel prints it"
        assert not [change.failures for change in hosts["sut"].changes.restore(own=True) if change.failures]
        assert hosts["sut"].call(Sysctls.read, [RESERVED_PORTS])[RESERVED_PORTS].value == ""
