"""The studies on hosts like their authors', of which only the facts exist: cells supported, claims testable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from benchkit.comparison.claims import judge_claims
from benchkit.comparison.runs.run_data import RunData
from benchkit.hosts.inventory import HostSpec
from benchkit.models.facts import HostFacts, Interface, ProgramFact
from benchkit.models.metrics import METRICS
from benchkit.models.run import HostRecord
from benchkit.plan.cells import plan_cell, skip_equal_cells
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.records import cell_record
from benchkit.scenario.read import read_experiment
from benchkit.store.parquet_files import empty_frame
from tests.support.builders import manifest

PROGRAMS = {
    "nginx": ProgramFact(path="/usr/sbin/nginx", version="1.26.3", version_output="nginx version: nginx/1.26.3"),
    "tengine": ProgramFact(
        path="/opt/tengine/sbin/nginx", version="2.3.2", version_output="Tengine version: Tengine/2.3.2"
    ),
    "node": ProgramFact(path="/usr/bin/node", version="22.20.0"),
    "taskset": ProgramFact(path="/usr/bin/taskset", version="2.38"),
    **{tool: ProgramFact(path=f"/usr/bin/{tool}", version="1.0") for tool in ("wrk", "ab", "hey", "siege", "vegeta")},
}
FILES = 1_000_000
"""Open files of a process, which each study raised."""


@dataclass(frozen=True)
class Machines:
    """A server and generators with the facts that matter to plans and claims."""

    cpus: int
    load_hosts: int = 1
    link_bps: float | None = None
    nofile: int = FILES

    def all(self) -> dict[str, HostCapabilities]:
        """Return the hosts, `sut` first."""
        names = ["sut", *(f"load{number}" for number in range(1, self.load_hosts + 1))]
        return {name: self._host(name, number) for number, name in enumerate(names, 1)}

    def _host(self, name: str, number: int) -> HostCapabilities:
        role, address = name.rstrip("0123456789"), f"10.0.0.{number}"
        facts = HostFacts(
            hostname=name, os="linux", kernel="6.1", machine="x86_64", goarch="amd64", python="3.11.2",
            cpus=tuple(range(self.cpus)), user="root", uid=0, nofile_hard=self.nofile, programs=PROGRAMS,
            interfaces=(Interface(name="eth0", addresses=(address,)),), link_bps=self.link_bps,
            sysctls={"net.ipv4.ip_local_port_range": "1025 65535"}, workdir="/root/.benchkit",
            clock_offset_s=0.0, clock_uncertainty_s=0.0,
        )  # fmt: skip
        return HostCapabilities(HostSpec(name=name, address=address, roles=(role,)), facts)


def unsupported_and_untestable(name: str, machines: Machines) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the cells that these hosts do not support at the scale `paper`, and untestable claims, with reasons.

    Claims about profiles, goroutines and parts of CPU time rest on what trials state, of which there is none here.
    """
    experiment, hosts = read_experiment(name, "paper"), machines.all()
    roles = {"sut": ("sut",), "load": tuple(host for host in hosts if host != "sut")}
    planned = list(skip_equal_cells([plan_cell(experiment, cell, roles, hosts) for cell in experiment.cells]))
    run = manifest(
        scenario=experiment.document.data,
        cells=tuple(map(cell_record, planned)),
        hosts=tuple(HostRecord(name=host, roles=each.spec.roles, facts=each.facts) for host, each in hosts.items()),
    )
    judged = judge_claims(RunData(run, empty_frame("trials")))
    untestable = {
        each.text: each.reason for each in judged if each.state == "not testable here" and each.metric in METRICS
    }
    return {cell.cell_id: cell.unsupported for cell in planned if cell.unsupported}, untestable


@pytest.mark.parametrize(
    ("name", "machines"),
    [
        ("nginx-vs-go", Machines(cpus=8)),
        ("nginx-roles", Machines(cpus=8, link_bps=1e8)),
        ("static-files", Machines(cpus=2)),
        ("reuseport", Machines(cpus=6, load_hosts=5, link_bps=10e9)),
        ("nethttp-vs-fasthttp", Machines(cpus=40)),
        ("scheduler-overhead", Machines(cpus=40)),
        ("fasthttp-conditions", Machines(cpus=40)),
        ("fasthttp-unsaturated", Machines(cpus=40)),
        ("go-releases", Machines(cpus=40)),
        ("node-releases", Machines(cpus=4)),
        ("blocking-handler", Machines(cpus=40)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hosts_like_the_published_ones_support_all_of_a_study(name: str, machines: Machines) -> None:
    assert unsupported_and_untestable(name, machines) == ({}, {})


@pytest.mark.parametrize(("link_bps", "untestable"), [(1e9, 1), (10e9, 2), (None, 3)])
def test_claims_of_node_depend_on_the_link(link_bps: float | None, untestable: int) -> None:
    unsupported, claims = unsupported_and_untestable("node-vs-go", Machines(cpus=4, link_bps=link_bps))
    assert unsupported == {}
    assert len(claims) == untestable
    assert all("link" in reason for reason in claims.values())


def test_smaller_hosts_say_what_they_lack() -> None:
    unsupported, claims = unsupported_and_untestable("reuseport", Machines(cpus=2, nofile=20000))
    lacking = {found for cell in unsupported for found in re.findall(r"connections=\d+", cell)}
    assert lacking == {"connections=60000", "connections=300000"}
    assert all("open files" in why or "ports" in why for why in unsupported.values())
    assert list(claims.values()) == ["needs 6 CPUs on sut, which has 2"]
