"""Stored tables for Dask: a partition for each run, which is read when it is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.comparison.stored_tables import Selection
from benchkit.errors import InputError
from benchkit.store.layout import Partition
from benchkit.store.store import open_store
from benchkit.store.tables import CELL_KEYS, empty_rows, read_rows

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd


def dask_frame(selection: Selection) -> dd.DataFrame:
    """Return the selected rows as a DataFrame of Dask, with a partition for each run.

    Integers and booleans have the types of pandas that allow nulls, so that all partitions agree. Workers in other
    processes open the store by its path or URL. Raises InputError where Dask is not installed.
    """
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise InputError(
            "Dask is not installed", where='engine="dask"', why=str(error), hint="pip install 'benchkit[dask]'"
        ) from None
    empty = _as_pandas(empty_rows(selection.table))
    parts = selection.parts()
    if not parts:
        frame: dd.DataFrame = dd.from_pandas(empty, npartitions=1)
    else:
        trials = [None if selection.trials is None else selection.trials[run_id] for _, run_id in parts]
        location = selection.store.absolute_location
        frame = dd.from_map(_read_part, parts, trials, location=location, table=selection.table, meta=empty)
    factors = selection.factors()
    return frame if factors is None else frame.merge(factors, on=CELL_KEYS, how="left")


def _read_part(
    part: Partition, trials: Sequence[str] | None, *, location: str, table: str, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the rows of these trials of a run (None: all); Dask passes the `columns` that it needs."""
    scenario, run_id = part
    wanted = columns
    if columns is not None and trials is not None:
        wanted = list(dict.fromkeys((*columns, "trial_id")))
    content = read_rows(open_store(location), table, [run_id], scenario, wanted)
    if trials is not None:
        content = content.filter(pc.is_in(content["trial_id"], value_set=pa.array(trials, pa.string())))
    return _as_pandas(content if columns is None else content.select(columns))


def _as_pandas(content: pa.Table) -> pd.DataFrame:
    """Return rows in types that do not depend on their values; Dask would turn other lists than Arrow's into text."""
    import pandas as pd

    names = pa.list_(pa.string())
    types: Mapping[pa.DataType, Any] = {
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        names: pd.ArrowDtype(names),
    }
    frame: pd.DataFrame = content.to_pandas(types_mapper=types.get)
    return frame
