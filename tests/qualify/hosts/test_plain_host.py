"""A host without Python: described by its shell, and prepared by its package manager, until the agent can start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchkit.agent.files import FileStore
from benchkit.hosts.connections import Hosts, connect
from benchkit.hosts.host import Host
from tests.support.commands import Done, command

if TYPE_CHECKING:
    from tests.support.hosts.fixtures import OddServer

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a program in a mount namespace"),
]


@pytest.fixture
def inventory_file(odd_server: OddServer, hosts: Hosts, tmp_path: Path) -> Iterator[Path]:
    """An inventory of the lab's load host and of a server where Python is hidden, until its apt-get installs it."""
    specs = {"sut": odd_server.at("hidden-python"), "load": hosts["load"].spec}
    fields = {name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for name, spec in specs.items()}
    path = tmp_path / "inventory.yaml"
    path.write_text(json.dumps({"hosts": fields}))  # JSON is YAML
    yield path
    hosts["sut"].call(FileStore.remove, "odd/installed")


def benchkit(*arguments: str | Path) -> Done:
    done = command(*map(str, arguments), environment=dict(os.environ))
    assert "Traceback" not in done.err, done.err
    return done


def test_facts_of_a_host_without_python_are_those_that_its_agent_would_tell(sut: Host, inventory_file: Path) -> None:
    checked = benchkit("hosts", "check", "-i", inventory_file, "--json")
    assert checked.code == 0, checked.err
    plain, with_agent = json.loads(checked.out)["hosts"]
    assert plain["notices"] == ["no Python 3.8 or newer: `benchkit hosts prepare SCENARIO` installs it"]
    assert with_agent["facts"]["python"]
    facts = sut.facts.model_dump(mode="json")
    same = ("hostname", "os", "distribution", "kernel", "machine", "goarch", "cpus", "memory_bytes", "user", "uid")
    assert {name: plain["facts"][name] for name in same} == {name: facts[name] for name in same}
    assert plain["facts"]["python"] is None
    assert plain["facts"]["package_manager"] == facts["package_manager"]
    shown = benchkit("hosts", "check", "-i", inventory_file)
    assert shown.code == 0
    assert "- no Python 3.8 or newer: `benchkit hosts prepare" in shown.out


def test_python_is_installed_where_it_is_missing(odd_server: OddServer, sut: Host, inventory_file: Path) -> None:
    refused = benchkit("plan", "quickstart", "-i", inventory_file)
    assert refused.code == 1
    assert "sut: no Python 3.8 or newer: " in refused.err
    assert "`benchkit hosts prepare SCENARIO` installs it there" in refused.err

    asked = benchkit("hosts", "prepare", "quickstart", "-i", inventory_file)
    assert asked.code == 1
    assert (
        "--no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold python3\n" in asked.out
    )

    prepared = benchkit("hosts", "prepare", "quickstart", "-i", inventory_file, "--yes")
    assert (prepared.code, prepared.out) == (0, "sut: installed python3\n"), prepared.err
    assert sut.files.read("odd/installed").endswith(b" python3\n")
    connect(odd_server.at("hidden-python")).close()
    again = benchkit("hosts", "prepare", "quickstart", "-i", inventory_file)
    assert again.out == "the hosts have everything that the scenario needs\n"
