"""A program of the inventory that its host cannot execute, on a lab host."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.agent.files import FileStore
from benchkit.errors import InputError
from benchkit.hosts.connections import connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from tests.support.builders import read_scenario, stacks

MACHINE = slice(18, 20)
NO_MACHINE = (8).to_bytes(2, "little")
"""Value of e_machine (elf(5)) for MIPS, which no test host is; MACHINE is its place in the file."""


def test_a_node_for_another_architecture_is_refused_before_anything_is_deployed(lab: Lab, tmp_path: Path) -> None:
    experiment = read_scenario(tmp_path, stacks=stacks(one={"backend": "node"}))
    inventory = lab.inventory()
    (sut,) = inventory.by_role("sut")
    content = bytearray(Path("/bin/true").resolve().read_bytes())
    content[MACHINE] = NO_MACHINE
    with connect_all(inventory) as hosts:
        program = hosts[sut.name].workdir / "foreign" / "node"
        hosts[sut.name].files.place([PlacedFile(program, bytes(content), 0o755)])
    named = sut.model_copy(update={"programs": {"node": str(program)}})
    others = tuple(named if host.name == sut.name else host for host in inventory.hosts)
    with connect_all(inventory.model_copy(update={"hosts": others})) as hosts:
        with pytest.raises(InputError) as caught:
            make_plan(experiment, hosts)
        hosts[sut.name].call(FileStore.remove, program.parent)
    assert f"small.yaml:4: stacks.one.services.app.backend: {program} on sut" in str(caught.value)
    assert "is it built for this host's architecture?" in str(caught.value)
    assert "hosts.sut.programs.node" in str(caught.value)
