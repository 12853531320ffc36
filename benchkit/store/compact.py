"""The small tables of all runs in one file each, so that reading a thousand runs costs as much as reading one.

The runs' own files stay where the contract has them, for every reader that knows hive partitions: a compact file is an
additional copy, with the partition keys as columns. It names the files that it copies; a run whose files were written
or removed since then is read from its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from benchkit.errors import InputError
from benchkit.models.rows import TABLES
from benchkit.models.run import SCHEMA_VERSION
from benchkit.store.durable_files import file_states, make_folders
from benchkit.store.parquet_files import current_files, read_file_schema, read_parquet, write_parquet
from benchkit.store.schema import VERSION_KEY, arrow_schema
from benchkit.store.store import Part, Store

PARTITION_KEYS = ("scenario", "run_id")
_COPIED_KEY = b"benchkit.compact"

FileStates = Mapping[Part, str]
"""Names, sizes and times of the files of each part, as text to compare."""


MAX_READS = 5
"""Attempts to read files of runs that are merged or removed meanwhile."""


@dataclass(frozen=True)
class Compaction:
    """The result of copying: the number of runs in each table, and the damaged files whose runs are omitted."""

    runs: Mapping[str, int]
    damaged: tuple[InputError, ...] = ()


def compact(store: Store) -> Compaction:
    """Copy the small tables of all runs into one file each; a run with a damaged file is omitted from the copy."""
    counts, damaged = {}, []
    for table, row in TABLES.items():
        if row.IS_LARGE:  # read run by run: a copy would cost more than it saves
            continue
        copied = [with_keys(arrow_schema(table).empty_table(), ("", ""))]
        states = []
        for part in store.parts(table):
            try:
                content, state = _read_part(store, table, part)
            except InputError as error:
                damaged.append(error)
                continue
            if state is not None:
                copied.append(content)
                states.append([*part, state])
        metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), _COPIED_KEY: json.dumps(states).encode()}
        path = store.compact_file(table)
        make_folders(path.parent)
        write_parquet(path, pa.concat_tables(copied).replace_schema_metadata(metadata))
        counts[table] = len(states)
    return Compaction(counts, tuple(damaged))


def read_compact(store: Store, table: str, states: FileStates) -> tuple[pa.Table | None, frozenset[Part]]:
    """Return those rows of a compact file whose runs have not changed since, and these runs.

    The rows are None where there is no compact file, or one of another version.
    """
    path = store.compact_file(table)
    if TABLES[table].IS_LARGE or not path.is_file():
        return None, frozenset()
    try:
        stored, schema = read_file_schema(path), with_keys(arrow_schema(table).empty_table(), ("", "")).schema
        metadata = stored.metadata or {}
        if metadata.get(VERSION_KEY) != str(SCHEMA_VERSION).encode() or set(stored.names) != set(schema.names):
            return None, frozenset()
        content = read_parquet(path, schema)
    except FileNotFoundError:  # removed meanwhile
        return None, frozenset()
    copied = {(scenario, run_id): state for scenario, run_id, state in from_json(metadata[_COPIED_KEY])}
    unchanged = frozenset(part for part, state in copied.items() if states.get(part) == state)
    if len(unchanged) < len(copied):
        runs = pa.array([run_id for _, run_id in unchanged], pa.string())
        content = content.filter(pc.is_in(content["run_id"], value_set=runs))
    return content.replace_schema_metadata(None), unchanged


def _read_part(store: Store, table: str, part: Part) -> tuple[pa.Table, str | None]:
    """Return the rows of a run with the state of their files; None as state where the run was removed meanwhile."""
    schema = arrow_schema(table)
    for attempt in range(1, MAX_READS + 1):
        scenario, run_id = part
        files = store.parts(table, scenario=scenario, runs=[run_id]).get(part, ())
        if not files:
            break
        try:
            state = file_states(files)
            rows = pa.concat_tables([read_parquet(file, schema) for file in current_files(table, files)])
        except FileNotFoundError:
            if attempt == MAX_READS:
                raise
        else:
            return with_keys(rows, part), state
    return with_keys(schema.empty_table(), part), None


def with_keys(rows: pa.Table, part: Part) -> pa.Table:
    """Return the rows with their partition keys as columns."""
    for name, value in zip(PARTITION_KEYS, part, strict=True):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return rows
