from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from tests.chaos.interference import HeldLoadTool, hold_load_tool
from tests.chaos.kit import SCENARIO, Bench, CommandServer

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


def write_inventory(lab: Lab, path: Path) -> Path:
    hosts = {
        spec.name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for spec in lab.inventory().hosts
    }
    path.write_text(json.dumps({"hosts": hosts}))  # JSON is YAML
    return path


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    made = CommandServer()
    yield made
    made.close()


@pytest.fixture(scope="session")
def stores() -> Iterator[Path]:
    """Where stores are made: processes are killed here, machines are not, so that nothing need wait for a disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def undisturbed(lab: Lab, command_server: CommandServer, stores: Path) -> Bench:
    """A run that nobody disturbed; after it the hosts keep what others need."""
    folder = stores / "undisturbed"
    folder.mkdir()
    made = Bench(lab, folder / "store", write_inventory(lab, folder / "inventory.yaml"), command_server)
    result = made.run(str(SCENARIO))
    assert result.code == 0, result.err
    return made


@pytest.fixture
def new_bench(lab: Lab, command_server: CommandServer, stores: Path) -> Iterator[Callable[[], Bench]]:
    """Make a store of its own for each run."""
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
    """One on hosts that have what runs leave there for the next."""
    assert undisturbed.runs()
    return new_bench()


@pytest.fixture
def held(lab: Lab) -> Iterator[HeldLoadTool]:
    """The load tool waits at its start until it is told to go, so that what is to happen under a trial does."""
    with hold_load_tool(lab, "load") as made:
        yield made
