"""A lab of four hosts for the tests of in-house Go modules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.support.cli.go_modules.hosts import list_leftovers

ROLES = {"dev": ("dev", "load"), "proxy": ("proxy",), "vcs": ("vcs",), "upstream": ("upstream",)}


@pytest.fixture(scope="module")
def inventory() -> Iterator[Inventory]:
    """Lab of a developer, a proxy, a git server and an upstream proxy; checks that nothing is left on them."""
    hosts = tuple(LabHost(name=name, roles=roles) for name, roles in ROLES.items())
    lab = up(LabSpec(name=f"pytest-{os.getpid()}-modules", hosts=hosts))
    try:
        inventory = lab.inventory()
        before = list_leftovers(inventory)
        yield inventory
        assert list_leftovers(inventory) == before
    finally:
        down(lab.name)


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State folder of the controller, with the secrets of this session."""
    return tmp_path_factory.getbasetemp() / "state"


@pytest.fixture
def environment(environment: dict[str, str], state: Path) -> dict[str, str]:
    """Environment with that state folder."""
    return environment | {"XDG_STATE_HOME": str(state)}


@pytest.fixture
def hosts_file(inventory: Inventory, tmp_path: Path) -> Path:
    """The lab as an inventory file."""
    hosts = {spec.name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for spec in inventory.hosts}
    path = tmp_path / "four.yaml"
    path.write_text(json.dumps({"hosts": hosts}))
    return path
