"""The Parquet tables of runs: one file per trial, merged into one when the run ends, and read over all runs.

There is one file per trial, so that every reader of the store sees the trials of a run that still runs or was killed.
The end of a run then does not read all raw files again.

Every file is written under another name, synced and renamed. The merged file names the files whose rows it contains
(`benchkit.replaces` in its metadata), and these are deleted after it has its name. A crash between these steps loses no
row: benchkit's readers skip the files that are replaced, and the next merge, resume or `reparse` deletes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.errors import InputError
from benchkit.models.rows import TABLES, FactorRow, LoadCurveRow, TrialRow, column_names
from benchkit.models.run import Manifest
from benchkit.store.durable_files import PARTIAL, fsync, make_folders
from benchkit.store.layout import Partition
from benchkit.store.parquet_files import (
    REPLACES_KEY,
    Rows,
    arrow_schema,
    arrow_table,
    concat_rows,
    current_files,
    read_parquet,
    rows_from_arrow,
    write_parquet,
)
from benchkit.store.row_builders import INTERRUPTED
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store, open_store

if TYPE_CHECKING:
    import pandas as pd


PARTITION_KEYS = ("scenario", "run_id")

MAX_READS = 5
"""Attempts to read files of runs that are merged or removed meanwhile."""

CELL_KEYS = ["run_id", "cell_id"]
"""Columns that name a cell of a run."""


def empty_rows(table: str) -> pa.Table:
    """Return a table without rows, with its partition keys as columns."""
    return with_keys(arrow_schema(table).empty_table(), ("", ""))


def with_keys(rows: pa.Table, part: Partition) -> pa.Table:
    """Return the rows with their partition keys as columns."""
    for name, value in zip(PARTITION_KEYS, part, strict=True):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return rows


class RunTables:
    """The tables of one run, for its only writer."""

    def __init__(self, store: Store, scenario: str, run_id: str) -> None:
        self._store = store
        self._key = scenario, run_id

    def add(self, table: str, name: str, rows: Rows) -> None:
        """Write rows as one more file of the table, or in place of the file of that name; without rows, write none."""
        content = arrow_table(table, rows)
        if content.num_rows:
            folder = self.folder(table)
            make_folders(folder)
            write_parquet(folder / f"{name}.parquet", content)

    def replace(self, table: str, *parts: Rows) -> None:
        """Replace all rows of the run in the table by these, in one file."""
        content = concat_rows(table, *parts)
        folder = self.folder(table)
        make_folders(folder)
        merged = folder / f"{table}.parquet"
        replaced = sorted(path.name for path in folder.glob("*.parquet") if path != merged)
        if replaced:
            content = content.replace_schema_metadata(
                {**content.schema.metadata, REPLACES_KEY: json.dumps(replaced).encode()}
            )
        write_parquet(merged, content)
        for leftover in (*(folder / name for name in replaced), *folder.glob(f".*{PARTIAL}")):
            leftover.unlink()
        fsync(folder)

    def merge(self) -> None:
        """Merge the files of each table into one."""
        for table in TABLES:
            if len(list(self.folder(table).glob("*.parquet"))) > 1:
                self.replace(table, self.rows(table))

    def mark_interrupted(self, trial_ids: Sequence[str]) -> None:
        """Mark stored trials whose block was interrupted by a pause and is repeated."""
        for path in self._files(TrialRow.TABLE):
            rows = read_parquet(path, arrow_schema(TrialRow.TABLE))
            is_marked = pc.is_in(rows["trial_id"], value_set=pa.array(trial_ids, pa.string()))
            if pc.any(is_marked).as_py():
                index = rows.schema.get_field_index("kind")
                write_parquet(path, rows.set_column(index, "kind", pc.if_else(is_marked, INTERRUPTED, rows["kind"])))

    def rows(self, table: str) -> pa.Table:
        """Return all rows of the run in the table."""
        schema = arrow_schema(table)
        return concat_rows(table, *(read_parquet(file, schema) for file in self._files(table)))

    def trials(self) -> list[TrialRow]:
        """Return all rows of the run in `trials`."""
        return rows_from_arrow(TrialRow, self.rows(TrialRow.TABLE))

    def load_curves(self) -> list[LoadCurveRow]:
        """Return all rows of the run in `load_curve`."""
        return rows_from_arrow(LoadCurveRow, self.rows(LoadCurveRow.TABLE))

    def folder(self, table: str) -> Path:
        """Return the folder of the run's rows of a table."""
        return self._store.table_folder(table, *self._key)

    def _files(self, table: str) -> tuple[Path, ...]:
        return current_files(table, sorted(self.folder(table).glob("*.parquet")))


def load(
    table: str,
    *,
    store: str | Path | Store | None = None,
    run_id: str | None = None,
    runs: Collection[str] | None = None,
    scenario: str | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read a stored table as a DataFrame: rows as the contract defines them, with the columns `scenario` and `run_id`.

    Tables that have `cell_id` also get a column `factor_<name>` for each factor of the runs read. It has numbers if all
    its levels are numbers, else text, and null where a run has no such factor. `run_id`, `runs` or `scenario` reads
    that part alone, and `columns` these columns alone, without factors: a fraction of the work for a large table.
    Raises InputError for a store that does not exist, for damaged files and for those of a newer schema.
    """
    source = open_store(store, must_exist=True)
    selected = runs if run_id is None else [run_id]
    frame: pd.DataFrame = read_rows(source, table, selected, scenario, columns).to_pandas()
    if columns is not None or not has_factors(table):
        return frame
    return frame.merge(factor_columns(source, selected, scenario), on=CELL_KEYS, how="left", validate="many_to_one")


def load_trials(run: RunFolder, store: Store) -> tuple[Manifest, pd.DataFrame]:
    """Return the manifest of a run and its trials. Raises InputError where the manifest lacks a cell of theirs."""
    manifest, trials = run.manifest(), load(TrialRow.TABLE, store=store, run_id=run.run_id)
    if unknown := sorted(set(trials["cell_id"]) - {cell.cell_id for cell in manifest.cells}):
        raise InputError(
            "manifest and tables of the run do not match",
            where=str(run.manifest_file),
            why=f"the manifest lacks the cell {unknown[0]}",
            hint="restore the manifest from a backup, or remove the run",
        )
    return manifest, trials


def has_factors(table: str) -> bool:
    """Return True for a table whose rows get a column for each factor."""
    return table != FactorRow.TABLE and "cell_id" in column_names(table)


def factor_columns(store: Store, runs: Collection[str] | None, scenario: str | None) -> pd.DataFrame:
    """Return the levels of the cells of these runs: a row for each run and cell, a column `factor_<name>` each."""
    factors: pd.DataFrame = read_rows(store, FactorRow.TABLE, runs, scenario).to_pandas()
    cells = factors[CELL_KEYS].drop_duplicates()
    for name, rows in factors.groupby("factor", sort=True):
        is_numeric = rows["level_num"].notna().all()
        values = rows[[*CELL_KEYS, "level_num" if is_numeric else "level"]].set_axis(
            [*CELL_KEYS, f"factor_{name}"], axis=1
        )
        cells = cells.merge(values, on=CELL_KEYS, how="left", validate="one_to_one")
    return cells


def read_rows(
    store: Store,
    table: str,
    runs: Collection[str] | None,
    scenario: str | None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read rows of a table, of these runs (None: all) and of that scenario (None: any), with their partition keys.

    They are read again if files are merged between listing and reading them. Raises InputError for damaged files and
    for those of a newer schema.
    """
    schema = arrow_schema(table)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name not in PARTITION_KEYS])
    for attempt in range(1, MAX_READS + 1):
        rows = [with_keys(schema.empty_table(), ("", ""))]
        try:
            for part, files in store.parts(table, runs=runs, scenario=scenario).items():
                rows += [with_keys(read_parquet(file, schema), part) for file in current_files(table, files)]
        except FileNotFoundError:
            if attempt == MAX_READS:
                raise
        else:
            break
    content = pa.concat_tables(rows)
    return content if columns is None else content.select(columns)
