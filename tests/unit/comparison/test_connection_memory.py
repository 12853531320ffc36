"""Memory per connection, from memory that grows with connections by a known number of bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.run_data import RunData
from benchkit.comparison.trends import connection_memory_of
from benchkit.models.run import Manifest

MakeTrials = Callable[..., pd.DataFrame]
MakeManifest = Callable[..., Manifest]
LEVELS = (200, 4000, 15000)


@pytest.fixture
def data(make_trials: MakeTrials, make_manifest: MakeManifest) -> Callable[[int], RunData]:
    """Function that returns a run of 10 MB of memory and 8000 B per connection, both with noise in each block."""

    def build(blocks: int) -> RunData:
        rng = np.random.default_rng(3)
        base = 1e7 * np.exp(0.1 * rng.standard_normal(blocks))
        memory = {f"connections={n}": base + 8000 * n * np.exp(0.02 * rng.standard_normal(blocks)) for n in LEVELS}
        trials = make_trials(memory, metric="server_memory_bytes")
        return RunData(make_manifest([{"connections": n} for n in LEVELS]), trials)

    return build


def test_the_memory_of_a_connection_is_without_that_of_the_server(data: Callable[[int], RunData]) -> None:
    (found,) = connection_memory_of(data(6))
    assert found.bytes_per_connection == pytest.approx(8000, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 8000 < found.high
    assert found.text.startswith("7.")
    assert " KiB [" in found.text


def test_too_few_blocks_have_a_reason(data: Callable[[int], RunData]) -> None:
    (found,) = connection_memory_of(data(2))
    assert found.text == "unknown: 2 blocks of 3 needed have every level"
