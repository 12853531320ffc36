"""Parquet tables: written a file a trial, joined when the run ends, read over all runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchkit.errors import InputError
from benchkit.results.compact import read_compact, written
from benchkit.results.durable_files import make_folders, sync_file, sync_folder
from benchkit.results.rows import INTERRUPTED, Columns, Row
from benchkit.results.schema import TABLES, VERSION_KEY, arrow_schema
from benchkit.results.store import Store, refuse_newer, store_path

if TYPE_CHECKING:
    import pandas as pd

PARTITION_KEYS = ("scenario", "run_id")
TRIES = 5


class RunTables:
    """The tables of one run, being written."""

    def __init__(self, store: Store, scenario: str, run_id: str) -> None:
        """Take the store, and the partition that the run's rows go to."""
        self._store = store
        self._key = scenario, run_id

    def add(self, table: str, name: str, rows: Sequence[Row] | Columns) -> None:
        """Write rows as one more file of the table, which appears whole."""
        content = _arrow(table, rows)
        if not content.num_rows:
            return
        folder = self._store.table_folder(table, *self._key)
        make_folders(folder)
        partial = folder / f".{name}.partial"
        try:
            _write(partial, content)
            partial.replace(folder / f"{name}.parquet")
        except OSError:  # a full disk, above all: not even half a file stays
            partial.unlink(missing_ok=True)
            raise
        sync_folder(folder)

    def join(self) -> bool:
        """Join the files of each table into one; whether there were several of any.

        The folder is exchanged whole, so that no row is seen twice.
        """
        joined = False
        for table in TABLES:
            folder = self._store.table_folder(table, *self._key)
            files = sorted(folder.glob("*.parquet"))
            if len(files) < 2:  # noqa: PLR2004 - one file is joined already
                continue
            self._exchange(table, self.rows(table))
            joined = True
        return joined

    def mark_split(self, trial_ids: Sequence[str]) -> None:
        """Mark trials whose block was cut by a pause, in the rows that there are of them."""
        rows = self.rows("trials")
        cut = pc.is_in(rows["trial_id"], value_set=pa.array(trial_ids, pa.string()))
        place = rows.schema.get_field_index("kind")
        self._exchange("trials", rows.set_column(place, "kind", pc.if_else(cut, INTERRUPTED, rows["kind"])))

    def apart(self, table: str, parts: Mapping[str, Sequence[Row]]) -> None:
        """Put rows in the place of all that the table has of the run, a file each name, so that each can be replaced."""
        self.replace(table)
        for name, rows in parts.items():
            self.add(table, name, rows)

    def rows(self, table: str) -> pa.Table:
        """All rows that the table has of the run."""
        files = sorted(self._store.table_folder(table, *self._key).glob("*.parquet"))
        empty = arrow_schema(table).empty_table()
        return pa.concat_tables([empty, *(pq.read_table(file, schema=arrow_schema(table)) for file in files)])

    def replace(self, table: str, *parts: Sequence[Row] | Columns | pa.Table) -> None:
        """Put these rows, in one part or several, in the place of all that the table has of the run."""
        empty = arrow_schema(table).empty_table()
        self._exchange(table, pa.concat_tables([empty, *(_arrow(table, part) for part in parts)]))

    def _exchange(self, table: str, rows: pa.Table) -> None:
        folder = self._store.table_folder(table, *self._key)
        self._store.scratch.replace(folder, lambda new: _write(new / f"{table}.parquet", rows))


def _arrow(table: str, rows: Sequence[Row] | Columns | pa.Table) -> pa.Table:
    schema = arrow_schema(table)
    if isinstance(rows, pa.Table):
        return rows
    return pa.table(rows, schema=schema) if isinstance(rows, dict) else pa.Table.from_pylist(list(rows), schema=schema)


def _write(path: Path, table: pa.Table) -> None:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
    sync_file(path)


def join_runs(store: Store) -> int:
    """Join the files of runs that did not do so themselves, for they were killed; how many these were.

    A run on which a process works is left to it.
    """
    joined = 0
    for run, manifest in store.survey()[0]:
        with contextlib.suppress(InputError), run.locked():
            joined += RunTables(store, str(manifest.scenario["name"]), run.run_id).join()
    return joined


def load(
    table: str, *, store: str | Path | None = None, run_id: str | None = None, scenario: str | None = None
) -> pd.DataFrame:
    """A stored table as a DataFrame: a row as the contract says, with the columns `scenario` and `run_id`.

    Tables that have `cell_id` also get a column `factor_<name>` for each factor of the runs read: numbers where all
    its levels are numbers, else text; null where a run has no such factor. `run_id` or `scenario` reads that part
    alone. Raises InputError for a table that does not exist, and for files of a newer schema.
    """
    if table not in TABLES:
        raise InputError(f"no table {table!r}", why=f"there are: {', '.join(TABLES)}")
    where = Store(store_path(Path(store) if store is not None else None))
    frame: pd.DataFrame = _read(where, table, run_id, scenario).to_pandas()
    if "cell_id" not in TABLES[table] or table == "factors":
        return frame
    return _with_factors(frame, _read(where, "factors", run_id, scenario).to_pandas())


def load_columns(table: str, columns: Sequence[str], *, store: Path, run_id: str) -> pd.DataFrame:
    """Some of the columns of a run's part of a table, without factors: of a large table that is a fraction of the work."""
    frame: pd.DataFrame = _read(Store(store), table, run_id, None, columns).to_pandas()
    return frame


def _read_once(
    store: Store, table: str, run_id: str | None, scenario: str | None, columns: Sequence[str] | None
) -> pa.Table:
    """Rows of a table; some of its columns only of one run."""
    keyed = _with_keys(arrow_schema(table))
    if columns is not None:
        keyed = pa.schema([keyed.field(name) for name in columns])
    parts = store.parts(table, run_id=run_id or "", scenario=scenario or "")
    copied: pa.Table | None = None
    fresh: frozenset[tuple[str, str]] = frozenset()
    if run_id is None:  # one run is read from its own files: no other's are opened
        copied, fresh = read_compact(store, table, {(of, run): written(files) for of, run, files in parts})
    rows = [keyed.empty_table()] if copied is None else [copied.cast(keyed)]
    for of, run, files in parts:
        if (of, run) not in fresh:
            rows += [_read_file(file, keyed, {"scenario": of, "run_id": run}) for file in files]
    read = pa.concat_tables(rows)
    in_order = copied is None or len(rows) == 1
    return read if in_order else read.sort_by([("scenario", "ascending"), ("run_id", "ascending")])


def _with_keys(schema: pa.Schema) -> pa.Schema:
    for name in PARTITION_KEYS:
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def _read_file(path: Path, schema: pa.Schema, keys: Mapping[str, str]) -> pa.Table:
    """One file as rows of the table, opened once: another may be put in its place meanwhile.

    Columns that an older version had not are null. Raises InputError for a file of a newer version.
    """
    with path.open("rb") as opened:
        file = pq.ParquetFile(opened)
        refuse_newer(int((file.metadata.metadata or {}).get(VERSION_KEY, b"0")), str(path))
        content = file.read(columns=[name for name in file.schema_arrow.names if name in schema.names])
    columns = []
    for field in schema:
        if field.name in keys:
            columns.append(pa.repeat(pa.scalar(keys[field.name], field.type), content.num_rows))
        elif field.name in content.schema.names:
            columns.append(content[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(content.num_rows, field.type))
    return pa.table(columns, schema=schema)


def _read(
    store: Store, table: str, run_id: str | None, scenario: str | None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Rows of a table; read again where a run that ends meanwhile has exchanged the files that were listed."""
    for _ in range(TRIES - 1):
        try:
            return _read_once(store, table, run_id, scenario, columns)
        except FileNotFoundError:
            continue
    return _read_once(store, table, run_id, scenario, columns)


def _with_factors(frame: pd.DataFrame, factors: pd.DataFrame) -> pd.DataFrame:
    keys = ["run_id", "cell_id"]
    for name, rows in factors.groupby("factor", sort=True):
        numeric = rows["level_num"].notna().all()
        values = rows[[*keys, "level_num" if numeric else "level"]].set_axis([*keys, f"factor_{name}"], axis=1)
        frame = frame.merge(values, on=keys, how="left", validate="many_to_one")
    return frame
