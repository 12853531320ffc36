"""Runs whose true values are known, in frames and in a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest

from benchkit.models.base import Levels, cell_id
from benchkit.models.run import CellRecord, HostRecord, Manifest
from benchkit.store.parquet_files import arrow_schema
from benchkit.store.row_builders import factor_rows, host_rows
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables

STARTED = datetime(2026, 3, 1, 10, tzinfo=UTC)

StoreRun = Callable[..., RunFolder]


def trials_of(
    rates: Mapping[str, npt.ArrayLike], *, run_id: str = "r1", metric: str = "rps", **columns: object
) -> pd.DataFrame:
    """Return trials of one run: values of the metric by cell, one per block; `columns` set whole columns."""
    rows = [
        {
            "cell_id": cell,
            "trial_id": f"{run_id}.{cell}.b{block}",
            "block": block,
            "position": position,
            "kind": "control" if cell.endswith("~control") else "measure",
            "started_at": STARTED + timedelta(seconds=100 * block + position),
            "requests": 50_000,
            metric: float(value),
            **columns,
        }
        for position, (cell, values) in enumerate(rates.items(), start=1)
        for block, value in enumerate(np.asarray(values, dtype=np.float64), start=1)
    ]
    frame: pd.DataFrame = pa.Table.from_pylist(rows, schema=arrow_schema("trials")).to_pandas()
    return frame


def manifest_of(
    cells: Sequence[Levels],
    *,
    run_id: str = "r1",
    unsupported: Mapping[str, str] | None = None,
    controls: Sequence[str] = (),
    scenario: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    **fields: object,
) -> Manifest:
    """Return the manifest of a run over these cells, given as levels by factor."""
    records = [
        CellRecord(cell_id=cell_id(levels), levels=levels, unsupported=(unsupported or {}).get(cell_id(levels)))
        for levels in cells
    ]
    records += [
        CellRecord(cell_id=f"{record.cell_id}~control", levels=record.levels)
        for record in records
        if record.cell_id in controls
    ]
    return Manifest.model_validate(
        {
            "run_id": run_id,
            "scenario": {"name": "small", "title": "Small", **(scenario or {})},
            "scale": "lab",
            "seed": 1,
            "blocks": 6,
            "cells": tuple(records),
            "hosts": (HostRecord(name="sut", roles=("sut",), facts=facts or {"cpus": [0, 1], "kernel": "6.1"}),),
            "versions": {"benchkit": "0.1.0"},
            "started_at": STARTED,
            "status": "done",
            **fields,
        }
    )


def store_run(path: Path, manifest: Manifest, trials: pd.DataFrame) -> RunFolder:
    """Store the run as benchkit does, and return its folder."""
    store = Store(path)
    run = store.create(manifest)
    tables = RunTables(store, manifest.scenario_name, manifest.run_id)
    schema = arrow_schema("trials")
    tables.replace("trials", pa.Table.from_pandas(trials[schema.names], schema=schema, preserve_index=False))
    tables.replace("factors", factor_rows(manifest.cells))
    tables.replace(
        "hosts", [row for host in manifest.hosts for row in host_rows(host.name, host.roles, "start", host.facts)]
    )
    return run


@pytest.fixture
def stored(tmp_path: Path) -> StoreRun:
    """`store_run`, in a store of the test's own."""
    return lambda manifest, trials: store_run(tmp_path, manifest, trials)
