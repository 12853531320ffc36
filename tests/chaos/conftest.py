from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from tests.chaos.kit import Bench, Zygote


def write_inventory(lab: Lab, path: Path) -> Path:
    hosts = {
        spec.name: spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) for spec in lab.inventory().hosts
    }
    path.write_text(json.dumps({"hosts": hosts}))  # JSON is YAML
    return path


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def new_bench(lab: Lab, tmp_path: Path, zygote: Zygote) -> Iterator[Callable[[], Bench]]:
    """Make a store of its own for each run."""
    made: list[Bench] = []

    def make() -> Bench:
        folder = tmp_path / f"bench{len(made)}"
        folder.mkdir()
        made.append(Bench(lab, folder / "store", write_inventory(lab, folder / "inventory.yaml"), zygote))
        return made[-1]

    yield make
    zygote.end_all()


@pytest.fixture
def bench(new_bench: Callable[[], Bench]) -> Bench:
    return new_bench()
