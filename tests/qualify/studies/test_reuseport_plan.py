"""The study of reuseport at the scale of its paper, planned for hosts with given facts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchkit.files import shipped
from benchkit.hosts.inventory import HostSpec, Inventory, load_inventory
from benchkit.models.facts import HostFacts, Interface, ProgramFact
from benchkit.plan.cells import plan_cell
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell
from benchkit.plan.planner import require_roles
from benchkit.scenario.read import read_experiment

CONNECTIONS = 300_000


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    """The inventory in the comment of the scenario."""
    lines = (shipped("scenarios") / "reuseport.yaml").read_text().splitlines()
    start = lines.index("#     hosts:")
    end = next(number for number, line in enumerate(lines[start:], start) if not line.startswith("#     "))
    file = tmp_path_factory.mktemp("reuseport") / "inventory.yaml"
    file.write_text("\n".join(line.removeprefix("#") for line in lines[start:end]))
    return load_inventory(file)


def capabilities_of(spec: HostSpec) -> HostCapabilities:
    """Return a host of eight cores with the tools of the study, tuned as the scenario has it."""
    versions = {
        "nginx": "nginx version: nginx/1.28.0",
        "tengine": "Tengine version: Tengine/3.1.0\nnginx version: nginx/1.24.0",
        "wrk": "wrk 4.2.0",
    }
    facts = HostFacts(
        hostname=spec.name,
        os="linux",
        kernel="6.12",
        machine="x86_64",
        goarch="amd64",
        python="3.13.5",
        cpus=tuple(range(8)),
        user="root",
        uid=0,
        clock_offset_s=0.0,
        clock_uncertainty_s=0.0001,
        interfaces=(Interface(name="eth0", addresses=(spec.address,)),),
        programs={name: ProgramFact(path=f"/usr/bin/{name}", version_output=text) for name, text in versions.items()},
        workdir="/root/.benchkit",
    )
    (tuning,) = read_experiment("reuseport", "paper").tuning
    sysctls = {key: str(value) for key, value in tuning.settings.sysctl.items()}
    return HostCapabilities(spec, facts, tuned=sysctls, tuned_nofile=tuning.settings.limits.nofile)


def largest_cells(inventory: Inventory) -> Iterator[PlannedCell]:
    """Yield the cells with the most connections, planned for the hosts of an inventory."""
    study = read_experiment("reuseport", "paper")
    capabilities = {spec.name: capabilities_of(spec) for spec in inventory.hosts}
    for cell in study.cells:
        if cell.levels["connections"] == CONNECTIONS:
            yield plan_cell(study, cell, require_roles(study, inventory), capabilities)


def test_five_load_hosts_get_an_equal_share_of_300000_connections(inventory: Inventory) -> None:
    cells = list(largest_cells(inventory))
    assert {cell.spec.levels["stack"] for cell in cells} == {"nginx", "nginx-gif", "tengine"}
    for cell in cells:
        assert cell.unsupported is None
        assert [(each.host, each.load.connections) for each in cell.generators] == [
            (f"load{number}", CONNECTIONS // 5) for number in range(1, 6)
        ]


def test_with_four_load_hosts_the_plan_says_how_many_it_takes(inventory: Inventory) -> None:
    four = inventory.model_copy(update={"hosts": inventory.hosts[:-1]})
    assert {cell.unsupported for cell in largest_cells(four)} == {
        "75000 connections: load1 has 64511 local ports for one address; 5 such load hosts can hold all 300000"
    }
