"""The Arrow schemas of the tables, derived from the row models, and the Parquet files that have them.

The schemas are equal in every run. Files are read with their checksums verified, and with errors that name the file.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from benchkit.errors import InputError
from benchkit.files import open_regular
from benchkit.models.rows import Row, RowT, column_names, column_types
from benchkit.models.run import SCHEMA_VERSION
from benchkit.store.durable_files import atomic_file

if TYPE_CHECKING:
    import pandas as pd


VERSION_KEY = b"benchkit.schema_version"

_ARROW_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
    tuple[str, ...]: pa.list_(pa.string()),
}


Rows: TypeAlias = "Sequence[Row] | pa.Table"
"""Rows of one table: as models, or as an Arrow table where there are thousands."""

REPLACES_KEY = b"benchkit.replaces"
"""Key of the metadata with the names of the files that a merged file replaces (see `benchkit.store.tables`)."""


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table, with the schema version in its metadata."""
    columns = [(name, _arrow_type(hint)) for name, hint in column_types(table).items()]
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


def arrow_table(table: str, rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    columns = {name: [getattr(row, name) for row in rows] for name in column_names(table)}
    return pa.table(columns, schema=arrow_schema(table))


def concat_rows(table: str, *parts: Rows) -> pa.Table:
    """Return rows in several parts as one Arrow table."""
    return pa.concat_tables([arrow_schema(table).empty_table(), *(arrow_table(table, part) for part in parts)])


def rows_from_arrow(row: type[RowT], content: pa.Table) -> list[RowT]:
    """Return the rows of an Arrow table as models."""
    names = column_names(row.TABLE)
    columns = (content[name].to_pylist() for name in names)
    rows = (
        (tuple(each) if isinstance(each, list) else each for each in values) for values in zip(*columns, strict=True)
    )
    return [row(**dict(zip(names, values, strict=True))) for values in rows]


def empty_frame(table: str) -> pd.DataFrame:
    """Return the table without rows, its columns typed as those of a stored one."""
    frame: pd.DataFrame = arrow_schema(table).empty_table().to_pandas()
    return frame


def _arrow_type(hint: Any) -> pa.DataType:  # noqa: ANN401 - a type
    if get_origin(hint) in (types.UnionType, Union):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return _ARROW_TYPES[hint]


def write_parquet(path: Path, content: pa.Table) -> None:
    """Write a file of a table, complete or not at all, with a checksum of each page."""
    with atomic_file(path) as file:
        pq.write_table(content, file, compression="zstd", write_page_checksum=True)


def read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a file as rows of a table: the columns of the schema, null where an older version lacks one.

    Raises InputError for a damaged file and for one of a newer version, FileNotFoundError for a missing one.
    """
    with _opened(path) as file:  # opened once, because another file may take its name meanwhile
        refuse_newer(int((file.metadata.metadata or {}).get(VERSION_KEY, b"0")), str(path))
        content = file.read(columns=[name for name in file.schema_arrow.names if name in schema.names])
        columns = [
            content[field.name].cast(field.type)
            if field.name in content.schema.names
            else pa.nulls(content.num_rows, field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)


def current_files(table: str, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files of a run's part of a table, except those that the merged one replaced before a crash."""
    merged = next((file for file in files if file.name == f"{table}.parquet"), None)
    if merged is None or len(files) == 1:
        return tuple(files)
    with _opened(merged) as content:
        replaced = frozenset(from_json((content.metadata.metadata or {}).get(REPLACES_KEY, b"[]")))
    return tuple(file for file in files if file.name not in replaced)


def refuse_newer(version: int, where: str) -> None:
    """Raise InputError for a schema version that this benchkit does not know yet."""
    if version > SCHEMA_VERSION:
        raise InputError(
            f"written with schema version {version}, this benchkit reads up to {SCHEMA_VERSION}",
            where=where,
            hint="update benchkit",
        )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; errors during the block become an InputError, except FileNotFoundError."""
    try:
        with open_regular(path) as file:
            yield pq.ParquetFile(file, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        of_disk = error.strerror if isinstance(error, OSError) else None
        raise InputError(
            "the table file is damaged" if of_disk is None else "cannot read the table file",
            where=str(path),
            why=of_disk or str(error).strip().partition("\n")[0].rstrip("."),
            hint="restore it from a backup; `benchkit results reparse RUN` builds the tables of a run from its raw files",
        ) from None
