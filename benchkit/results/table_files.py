"""The files of a run's part of a table, some of which a merged file may replace (see `benchkit.results.tables`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

REPLACES_KEY = b"benchkit.replaces"


def current_files(table: str, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files, except those that the merged one replaces and that a crash left undeleted."""
    merged = next((file for file in files if file.name == f"{table}.parquet"), None)
    if merged is None or len(files) == 1:
        return tuple(files)
    metadata = pq.read_metadata(merged).metadata or {}
    replaced = frozenset(json.loads(metadata.get(REPLACES_KEY, b"[]")))
    return tuple(file for file in files if file.name not in replaced)
