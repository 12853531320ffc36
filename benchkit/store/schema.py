"""The Arrow schemas of the tables, derived from the row models; equal in every run."""

from __future__ import annotations

import types
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, get_args, get_origin

import pyarrow as pa

from benchkit.models.rows import TABLES, Columns, Row, column_names, column_types
from benchkit.models.run import SCHEMA_VERSION

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

RowT = TypeVar("RowT", bound=Row)

Rows: TypeAlias = "Sequence[Row] | Columns[Any] | pa.Table"
"""Rows of one table in one of their three forms: models, columns, or an Arrow table."""


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table, with the schema version in its metadata."""
    columns = [(name, _arrow_type(hint)) for name, hint in column_types(table).items()]
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


def arrow_table(table: str, rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    columns = rows if isinstance(rows, Columns) else Columns.of_rows(TABLES[table], rows)
    return pa.table(dict(columns.values), schema=arrow_schema(table))


def rows_from_arrow(row: type[RowT], content: pa.Table) -> list[RowT]:
    """Return the rows of an Arrow table as models."""
    names = column_names(row.TABLE)
    columns = (content[name].to_pylist() for name in names)
    return [row(**dict(zip(names, _hashable(values), strict=True))) for values in zip(*columns, strict=True)]


def empty_frame(table: str) -> pd.DataFrame:
    """Return the table without rows, its columns typed as those of a stored one."""
    frame: pd.DataFrame = arrow_schema(table).empty_table().to_pandas()
    return frame


def _arrow_type(hint: Any) -> pa.DataType:  # noqa: ANN401 - a type
    if get_origin(hint) in (types.UnionType, Union):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return _ARROW_TYPES[hint]


def _hashable(values: Sequence[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else value for value in values]
