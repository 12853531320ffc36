"""A stored run of 500 cells and 10 blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchkit.models.rows import TrialRow
from benchkit.models.run import HostRecord
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support import builders

CELLS, BLOCKS, REPEATS = 500, 10, 5


def save_large_run(
    store: Store,
    run_id: str,
    columns: Mapping[str, npt.NDArray[np.float64]],
    *,
    constants: Mapping[str, Any],
    **scenario: object,
) -> tuple[RunTables, list[TrialRow]]:
    """Store manifest, trials and factors; return the run's tables and its rows of `trials`.

    `columns` have a value for each block and cell, `constants` one for all trials; the others are fields of the
    scenario.
    """
    levels: list[dict[str, str | int | float | bool]] = [
        {"stack": f"s{i % 5}", "connections": 8 * (1 + i // 5)} for i in range(CELLS)
    ]
    manifest = builders.manifest(
        run_id=run_id,
        scenario={"name": "large", "title": "Large", "baseline": {"stack": "s0"}, **scenario},
        blocks=BLOCKS,
        cells=builders.cells(*levels),
        hosts=(HostRecord(name="sut", roles=("sut",), facts={"cpus": [0, 1]}),),
        status="done",
    )
    store.create(manifest)
    rows = [
        TrialRow(
            cell_id=cell.cell_id,
            trial_id=f"{run_id}.b{block}.p{position}",
            block=block,
            position=position,
            kind="measure",
            started_at=manifest.started_at,
            requests=100_000,
            **{**constants, **{name: float(values[block - 1, position - 1]) for name, values in columns.items()}},
        )
        for block in range(1, BLOCKS + 1)
        for position, cell in enumerate(manifest.cells, start=1)
    ]
    tables = RunTables(store, "large", run_id)
    tables.replace("trials", rows)
    tables.replace("factors", factor_rows(manifest.cells))
    return tables, rows
