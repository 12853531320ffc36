from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchkit.lab.lab import Lab
from tests.qualify.chaos.interference import HeldLoadTool, hold_load_tool
from tests.qualify.chaos.kit import SCENARIO, Bench, CommandServer

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


def write_inventory(lab: Lab, path: Path) -> Path:
    specs = lab.inventory().hosts
    hosts = {spec.name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for spec in specs}
    path.write_text(json.dumps({"hosts": hosts}))  # JSON is YAML
    return path


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    made = CommandServer()
    yield made
    made.close()


@pytest.fixture(scope="session")
def stores() -> Iterator[Path]:
    """A folder for stores, in memory: these tests kill processes, not machines, so nothing need wait for a disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def undisturbed(lab: Lab, command_server: CommandServer, stores: Path) -> Bench:
    """A run without any disturbance; afterwards the hosts keep what other runs need."""
    folder = stores / "undisturbed"
    folder.mkdir()
    made = Bench(lab, folder / "store", write_inventory(lab, folder / "inventory.yaml"), command_server)
    result = made.run(str(SCENARIO))
    assert result.code == 0, result.err
    return made


@pytest.fixture
def new_bench(lab: Lab, command_server: CommandServer, stores: Path) -> Iterator[Callable[[], Bench]]:
    """A function that makes a bench with a store of its own."""
    made: list[Path] = []

    def make() -> Bench:
        folder = Path(tempfile.mkdtemp(dir=stores))
        made.append(folder)
        return Bench(lab, folder / "store", write_inventory(lab, folder / "inventory.yaml"), command_server)

    yield make
    command_server.end_all()
    for folder in made:
        shutil.rmtree(folder)


@pytest.fixture
def bench(new_bench: Callable[[], Bench], undisturbed: Bench) -> Bench:
    """A bench on hosts that keep what an earlier run left for the next."""
    assert undisturbed.runs()
    return new_bench()


@pytest.fixture
def held(lab: Lab) -> Iterator[HeldLoadTool]:
    """The load tool, held at its start until it is released, so that a test can act during a trial."""
    with hold_load_tool(lab, "load") as made:
        yield made
