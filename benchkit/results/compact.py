"""The small tables of all runs in one file each, so that reading a thousand runs costs as much as reading one.

The runs' own files stay where the contract has them, for every reader that knows hive partitions: a compact file is an
additional copy, with the partition keys as columns. It names the files that it copies; a run whose files were written
or removed since then is read from its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchkit.models.rows import TABLES
from benchkit.models.run import SCHEMA_VERSION
from benchkit.results.durable_files import atomic_file, make_folders
from benchkit.results.schema import VERSION_KEY, arrow_schema
from benchkit.results.store import Part, Store
from benchkit.results.table_files import current_files

PARTITION_KEYS = ("scenario", "run_id")
_COPIED_KEY = b"benchkit.compact"

FileStates = Mapping[Part, str]
"""Names, sizes and times of the files of each part, as text to compare."""


def compact(store: Store) -> dict[str, int]:
    """Copy the small tables of all runs into one file each, and return the number of runs in each."""
    counts = {}
    for table, row in TABLES.items():
        if row.IS_LARGE:  # read run by run: a copy would cost more than it saves
            continue
        parts = store.parts(table)
        states = [[*part, file_states(files)] for part, files in parts.items()]
        rows = pa.concat_tables(
            [
                _with_keys(arrow_schema(table).empty_table(), ("", "")),
                *(_read_part(table, part, files) for part, files in parts.items()),
            ]
        )
        metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), _COPIED_KEY: json.dumps(states).encode()}
        path = store.compact_file(table)
        make_folders(path.parent)
        with atomic_file(path) as file:
            pq.write_table(rows.replace_schema_metadata(metadata), file, compression="zstd")
        counts[table] = len(parts)
    return counts


def file_states(files: Sequence[Path]) -> str:
    """Return names, sizes and times of files as text to compare."""
    stats = [(file.name, file.stat()) for file in files]
    return json.dumps([[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats])


def read_compact(store: Store, table: str, states: FileStates) -> tuple[pa.Table | None, frozenset[Part]]:
    """Return those rows of a compact file whose runs have not changed since, and these runs.

    The rows are None where there is no compact file, or one of another version.
    """
    path = store.compact_file(table)
    if TABLES[table].IS_LARGE or not path.is_file():
        return None, frozenset()
    content = pq.read_table(path)
    metadata = content.schema.metadata or {}
    is_same_version = metadata.get(VERSION_KEY) == str(SCHEMA_VERSION).encode()
    if not is_same_version or set(content.column_names) != {*arrow_schema(table).names, *PARTITION_KEYS}:
        return None, frozenset()
    copied = {(scenario, run_id): state for scenario, run_id, state in json.loads(metadata[_COPIED_KEY])}
    unchanged = frozenset(part for part, state in copied.items() if states.get(part) == state)
    if len(unchanged) < len(copied):
        runs = pa.array([run_id for _, run_id in unchanged], pa.string())
        content = content.filter(pc.is_in(content["run_id"], value_set=runs))
    return content.replace_schema_metadata(None), unchanged


def _read_part(table: str, part: Part, files: Sequence[Path]) -> pa.Table:
    schema = arrow_schema(table)
    return _with_keys(
        pa.concat_tables([pq.read_table(file, schema=schema) for file in current_files(table, files)]), part
    )


def _with_keys(rows: pa.Table, part: Part) -> pa.Table:
    """Return the rows with their partition keys as columns."""
    for name, value in zip(PARTITION_KEYS, part, strict=True):
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
    return rows
