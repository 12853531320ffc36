"""A lab of four hosts for the tests of in-house Go modules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.hosts.connections import connect
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.support.cli.go_modules.hosts import SETTINGS, list_leftovers

ROLES = {"dev": ("dev", "load"), "proxy": ("proxy",), "vcs": ("vcs",), "upstream": ("upstream",)}
GO = "own/go"
"""Path in the work directory of `dev`."""


@pytest.fixture(scope="module")
def inventory() -> Iterator[Inventory]:
    """Lab of a developer, a proxy, a git server and an upstream proxy; checks that nothing is left on them."""
    hosts = tuple(LabHost(name=name, roles=roles) for name, roles in ROLES.items())
    lab = up(LabSpec(name=f"pytest-{os.getpid()}-modules", hosts=hosts))
    try:
        inventory = with_separate_go_settings(lab.inventory())
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


def with_separate_go_settings(inventory: Inventory) -> Inventory:
    """Return the inventory with a go command on `dev` that has its own settings file, not its user's."""
    with connect(inventory.named("dev")) as dev:
        line = f'GOENV="${{GOENV:-{dev.workdir / SETTINGS}}}" exec {dev.facts.programs["go"].path} "$@"'
        dev.files.place([PlacedFile(PurePosixPath(GO), f"#!/bin/sh\n{line}\n".encode(), 0o755)])
        programs = {"go": str(dev.workdir / GO)}
    specs = [each.model_copy(update={"programs": programs}) if each.name == "dev" else each for each in inventory.hosts]
    return inventory.model_copy(update={"hosts": tuple(specs)})
