"""Stored tables for Dask and DuckDB, which read the files of a run when its rows are needed.

Both get the files of the selected runs alone. Dask reads a partition for each run with benchkit's own reader; DuckDB
reads the files itself, by the names of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.comparison.stored_tables import Selection
from benchkit.errors import InputError
from benchkit.plugins.dask.executor import needs_extra
from benchkit.store.layout import Partition
from benchkit.store.parquet_files import VERSION_KEY, refuse_newer
from benchkit.store.store import open_store
from benchkit.store.tables import CELL_KEYS, empty_rows, read_rows

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd


def dask_frame(selection: Selection) -> dd.DataFrame:
    """Return the rows as a DataFrame of Dask: a partition for each run, read when it is computed.

    Integers and booleans are of the types of pandas that have nulls, so that they are the same in every partition.
    Workers in other processes open the store by its path or URL. Raises InputError where Dask is not installed.
    """
    with needs_extra("dask", 'engine="dask"'):
        import dask.dataframe as dd
    empty = _as_pandas(empty_rows(selection.table))
    parts = list(selection.parts())
    if not parts:
        frame: dd.DataFrame = dd.from_pandas(empty, npartitions=1)
    else:
        trials = [None if selection.trials is None else selection.trials[run_id] for _, run_id in parts]
        frame = dd.from_map(
            _read_part,
            parts,
            trials,
            location=selection.store.files.absolute_location,
            table=selection.table,
            meta=empty,
            label=selection.table,
        )
    factors = selection.factors()
    if factors is not None:
        frame = frame.merge(factors, on=CELL_KEYS, how="left")
    return frame


def _read_part(
    part: Partition, trials: Sequence[str] | None, *, location: str, table: str, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the rows of one run, of these trials (None: all); `columns` are those that Dask needs."""
    scenario, run_id = part
    wanted = columns
    if columns is not None and trials is not None:
        wanted = list(dict.fromkeys((*columns, "trial_id")))
    content = read_rows(open_store(location), table, [run_id], scenario, wanted)
    if trials is not None:
        content = content.filter(pc.is_in(content["trial_id"], value_set=pa.array(trials, pa.string())))
    return _as_pandas(content if columns is None else content.select(columns))


def _as_pandas(content: pa.Table) -> pd.DataFrame:
    """Return rows in types that do not depend on their values; lists are Arrow's, as Dask would make text of others."""
    import pandas as pd

    names = pa.list_(pa.string())
    types: Mapping[pa.DataType, Any] = {
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        names: pd.ArrowDtype(names),
    }
    frame: pd.DataFrame = content.to_pandas(types_mapper=types.get)
    return frame


def duckdb_relation(selection: Selection) -> duckdb.DuckDBPyRelation:
    """Return the rows as a relation of DuckDB, which reads files when it is computed.

    Only the footers of the files are read at once. Of a store below a URL DuckDB reads the columns that it needs, and
    verifies no checksums. Raises InputError where DuckDB is not installed, for damaged files and for those of a newer
    schema.
    """
    with needs_extra("duckdb", 'engine="duckdb"'):
        import duckdb
    connection = duckdb.connect()
    connection.register("arrow_rows", empty_rows(selection.table))
    connection.execute("CREATE TEMP TABLE empty_rows AS FROM arrow_rows")
    empty = connection.table("empty_rows")
    types = dict(zip(empty.columns, map(str, empty.types), strict=True))
    files = [file for files in selection.parts().values() for file in files]
    source, stored = "empty_rows", frozenset(types)
    if files:
        if (filesystem := selection.store.files.filesystem) is not None:
            connection.register_filesystem(filesystem)
        listed = f"[{', '.join(map(_text, files))}]"
        source = f"read_parquet({listed}, hive_partitioning = true, hive_types_autocast = false, union_by_name = true)"
        try:
            stored = frozenset(connection.sql(f"FROM {source}").columns)
            _refuse_newer(connection, listed)
        except duckdb.Error as error:
            raise InputError(
                "DuckDB cannot read the files of the table",
                where=f"{selection.store.location}, table {selection.table}",
                why=str(error),
                hint="`benchkit results check` names damaged files",
            ) from None
    columns = (f"CAST({_name(name) if name in stored else 'NULL'} AS {types[name]}) AS {_name(name)}" for name in types)
    query = f"FROM {source} SELECT {', '.join(columns)}"
    if selection.trials is not None:
        ids = [trial_id for trials in selection.trials.values() for trial_id in trials]
        connection.register("arrow_trials", pa.table({"trial_id": pa.array(ids, pa.string())}))
        connection.execute("CREATE TEMP TABLE selected_trials AS FROM arrow_trials")
        query += " WHERE trial_id IN (FROM selected_trials)"
    factors = selection.factors()
    if factors is not None:
        connection.register("pandas_factors", factors)
        connection.execute("CREATE TEMP TABLE cell_factors AS FROM pandas_factors")
        query = f"FROM ({query}) LEFT JOIN cell_factors USING ({', '.join(CELL_KEYS)})"
    return connection.sql(query).set_alias(selection.table)


def _refuse_newer(connection: duckdb.DuckDBPyConnection, files: str) -> None:
    """Raise InputError for files of a newer schema; `files` is a list of SQL."""
    query = f"FROM parquet_kv_metadata({files}) SELECT file_name, value WHERE key = {_text(VERSION_KEY.decode())}"
    for file, version in connection.execute(query).fetchall():
        refuse_newer(int(version), file)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
