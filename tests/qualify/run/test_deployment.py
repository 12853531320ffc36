from __future__ import annotations

import pytest

from benchkit.agent.operations import SocketAddress
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from benchkit.run.deployment import holder_name, select_cell, take_down, up
from benchkit.scenario.experiment import Experiment
from tests.support.builders import experiment, stacks
from tests.support.needs import separate_hosts
from tests.support.waiting import wait_until


def two_stacks(**fields: object) -> Experiment:
    """Return an experiment with the cells `stack=one` and `stack=two`."""
    return experiment(stacks=stacks(one={}, two={"listen": 8081}), factors={"stack": ["one", "two"]}, **fields)


@separate_hosts
def test_up_tunes_hosts_that_another_run_had_tuned_while_planning(lab: Lab) -> None:
    tuned, key = two_stacks(tuning=[{"profile": "nginx-vs-go", "roles": ["sut"]}]), "net.core.somaxconn"
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].call(Sysctls.read, [key])[key].value
        with connect_all(lab.inventory()) as others:
            others.lock("r1")
            others["sut"].call(Sysctls.write, {key: "65535"})
            planned = make_plan(tuned, hosts)
        assert hosts["sut"].call(Sysctls.read, [key])[key].value == before != "65535"
        up(planned, select_cell(planned), hosts, lambda _: None)
    with connect_all(lab.inventory()) as hosts:
        while_up = hosts["sut"].call(Sysctls.read, [key])[key].value
        assert take_down(holder_name(tuned.scenario.name), hosts) == ("sut",)
        assert (while_up, hosts["sut"].call(Sysctls.read, [key])[key].value) == ("65535", before)


@separate_hosts
def test_down_ends_a_stack_whose_watchdog_was_killed(lab: Lab) -> None:
    tuned, key = two_stacks(tuning=[{"profile": "nginx-vs-go", "roles": ["sut"]}]), "net.core.somaxconn"
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].call(Sysctls.read, [key])[key].value
        planned = make_plan(tuned, hosts)
        cell = select_cell(planned)
        up(planned, cell, hosts, lambda _: None)
    address = SocketAddress("tcp", str(cell.services[0].endpoint.address), cell.services[0].endpoint.port or 0)
    with connect_all(lab.inventory()) as hosts:
        sut = hosts["sut"]
        holder = sut.call(Undo.traces).holder
        assert holder is not None
        assert sut.processes.run(["kill", "-9", str(holder.pid)]).ok
        wait_until(lambda: sut.call(Undo.traces).holder is None)  # the kernel ends it when it next schedules it
        assert sut.sockets.get_http(address).status == 200
        assert take_down(holder_name(tuned.scenario.name), hosts) == ("sut",)
        with pytest.raises(HostError):
            sut.sockets.get_http(address)
        assert sut.call(Sysctls.read, [key])[key].value == before != "65535"
        assert [record.text for record in sut.call(Undo.traces).records if record.state == "abandoned"] == []
        assert take_down(holder_name(tuned.scenario.name), hosts) == ()
