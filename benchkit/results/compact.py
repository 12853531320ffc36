"""The small tables of all runs in one file each, so that a thousand runs are read at the cost of one.

The runs' own files stay where the contract has them, for every reader that knows hive partitions: a compact file is a
copy beside them, with the partition keys as columns. It says of which files it is a copy; a run that has been written,
judged or removed since is read from its own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchkit.models.run import SCHEMA_VERSION
from benchkit.results.durable_files import make_folders, write_whole
from benchkit.results.schema import TABLES, VERSION_KEY, arrow_schema
from benchkit.results.store import Store

LARGE = frozenset({"latency", "telemetry", "profile"})
"""Tables that are read run by run: a copy of them would cost more than it saves."""

KEYS = ("scenario", "run_id")
_FILES = b"benchkit.compact"

Part = tuple[str, str]
"""A run's part of a table: (scenario, run_id)."""
State = Mapping[Part, str]
"""Which files each part consists of, and when they were written."""


def compact(store: Store) -> dict[str, int]:
    """Copy the small tables of all runs into a file each; how many runs each of them has."""
    done = {}
    for table in TABLES:
        if table in LARGE:
            continue
        parts = store.parts(table)
        state = {(scenario, run_id): written(files) for scenario, run_id, files in parts}
        whole = [_part(table, (scenario, run_id), files) for scenario, run_id, files in parts]
        rows = pa.concat_tables([_keyed(arrow_schema(table).empty_table(), ("", "")), *whole])
        metadata = {
            VERSION_KEY: str(SCHEMA_VERSION).encode(),
            _FILES: json.dumps([[*part, files] for part, files in state.items()]).encode(),
        }
        content = io.BytesIO()
        pq.write_table(rows.replace_schema_metadata(metadata), content, compression="zstd")
        make_folders(store.compact_file(table).parent)
        write_whole(store.compact_file(table), content.getvalue())
        done[table] = len(state)
    return done


def written(files: Sequence[Path]) -> str:
    """Which files these are and when they were written, as text to be compared."""
    stats = [(file.name, file.stat()) for file in files]
    return json.dumps([[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats])


def read_compact(store: Store, table: str, state: State) -> tuple[pa.Table | None, frozenset[Part]]:
    """The rows of a compact file that are still those of their runs, and of which runs they are."""
    path = store.compact_file(table)
    if table in LARGE or not path.is_file():
        return None, frozenset()
    content = pq.read_table(path)
    metadata = content.schema.metadata or {}
    version = metadata.get(VERSION_KEY) == str(SCHEMA_VERSION).encode()
    if not version or set(content.column_names) != {*arrow_schema(table).names, *KEYS}:  # of another benchkit
        return None, frozenset()
    copied = {(scenario, run_id): files for scenario, run_id, files in json.loads(metadata[_FILES])}
    fresh = frozenset(part for part, files in copied.items() if state.get(part) == files)
    if len(fresh) < len(copied):
        runs = pa.array([run_id for _, run_id in fresh], pa.string())
        content = content.filter(pc.is_in(content["run_id"], value_set=runs))
    return content.replace_schema_metadata(None), fresh


def _part(table: str, part: Part, files: Sequence[Path]) -> pa.Table:
    schema = arrow_schema(table)
    return _keyed(pa.concat_tables([pq.read_table(file, schema=schema) for file in files]), part)


def _keyed(rows: pa.Table, part: Part) -> pa.Table:
    """The rows with their partition keys as columns."""
    for name, value in zip(KEYS, part, strict=True):
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
    return rows
