"""A store of runs with a step, and the links of its site."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from tests.support.comparison.fixtures import STARTED, manifest_of, store_run, trials_of

CELLS = [{"stack": "old"}, {"stack": "<new>"}]
RATIOS = [1.0] * 8 + [0.8] * 6
UNUSED = 3
"""Run of which each cell has two trials: too few for an interval."""

AddRun = Callable[[int, float], RunFolder]


@pytest.fixture
def add_run(tmp_path: Path) -> AddRun:
    """Store a run of this number, with this ratio between its cells."""
    generator = np.random.default_rng(5)

    def add(number: int, ratio: float) -> RunFolder:
        blocks = 2 if number == UNUSED else 8
        noise = 1000 * np.exp(0.01 * generator.standard_normal((2, blocks)))
        run_id = f"r{number:02}"
        facts = {"cpus": [0, 1], "kernel": "6.1" if number < 4 else "6.6"}
        manifest = manifest_of(CELLS, run_id=run_id, started_at=STARTED + timedelta(days=number), facts=facts)
        rates = {"stack=old": noise[0], "stack=<new>": ratio * noise[1]}
        return store_run(tmp_path / "store", manifest, trials_of(rates, run_id=run_id, tool="wrk"))

    return add


@pytest.fixture
def store(tmp_path: Path, add_run: AddRun) -> Store:
    """A store of fourteen runs with a step."""
    for number, ratio in enumerate(RATIOS):
        add_run(number, ratio)
    return Store(tmp_path / "store")


def links(page: Path) -> list[str]:
    """Return the addresses of the links of a page."""
    return [str(link["href"]) for link in BeautifulSoup(page.read_text(), "html.parser").find_all("a")]
