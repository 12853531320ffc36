"""Copy runs of a store, without their raw files, into the small store that ships with the notebooks.

    python tests/qualify/notebooks/record_store.py [--small] [--without TABLE]… results notebooks/recorded RUN…
    python tests/qualify/notebooks/record_store.py --claims notebooks/recorded
    python tests/qualify/notebooks/record_store.py --compress notebooks/recorded

In the first form, older runs of the same scenarios are removed there. `--small` leaves out large tables (histograms,
samples, slices). The runs are real ones of a lab: `notebooks/recorded/README.md` has their commands. The second form
gives the runs the questions, claims and published figures that their scenarios have today. These say how a run is read,
and not what ran. The third writes the same tables again in as few bytes as the first one does.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter
from pydantic_core import to_json

from benchkit.models import Scale
from benchkit.models.rows import TABLES, LatencyRow, TelemetryRow
from benchkit.models.run import SCHEMA_VERSION
from benchkit.scenario.read import read_experiment
from benchkit.store.durable_files import atomic_file
from benchkit.store.parquet_files import VERSION_KEY, arrow_schema, read_parquet
from benchkit.store.store import Store

FOLDER = re.compile(rb'"/(?:[^"/]+/)*?(scenarios/)?(?=[a-z0-9-]+\.yaml")')
NAMED = re.compile(rb'/(?:[^"/ ]+/)+(?=athens[:" ])')
"""Folder of a binary that the inventory names."""
COPIED = ("manifest.json", "journal.jsonl")
"""Files of a run; its log names folders of the machine, and its checksums are of all files."""
LARGE = frozenset({"slices", "telemetry", "profile", "latency"})
SHOWN = (
    *("cpu_s_total", "requests_total", "net_sent_bytes_total", "goroutines", "rss_bytes"),
    *("accept_queue", "accept_queue_limit", "listen_overflows_total"),
    *("disk_read_bytes_total", "disk_written_bytes_total", "net_received_bytes_total", "context_switches_total"),
    *("memory_used_bytes", "heap_bytes", "allocated_bytes_total", "gc_total", "gc_pause_s_total"),
)
"""Metrics of copied samples: those that figures and notebooks show."""
SCALE: TypeAdapter[Scale] = TypeAdapter(Scale)
STEP = 1.05
"""Ratio of the starts of adjacent buckets in copied histograms; wrk records each microsecond."""


def record(source: Store, target: Store, names: list[str], without: Collection[str]) -> None:
    """Copy manifest, journal and tables of these runs, `without` some tables."""
    runs = [source.run(name) for name in names]
    scenarios = {run.manifest().scenario_name for run in runs}
    for old in target.runs():
        if old.manifest().scenario_name in scenarios:
            target.remove(old)
    for run in runs:
        folder = target.path / run.path.relative_to(source.path)
        folder.mkdir(parents=True)
        for copied in COPIED:
            # The places of the scenario's file and binaries are of use on that machine alone.
            content = FOLDER.sub(rb'"\1', (run.path / copied).read_bytes())
            (folder / copied).write_bytes(NAMED.sub(b"", content))
        for table in (name for name in TABLES if name not in without):
            for files in source.parts(table, runs=[run.run_id]).values():
                for file in files:
                    copy = target.path / file.relative_to(source.path)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    rows = read_parquet(file, arrow_schema(table))
                    if table == LatencyRow.TABLE:
                        rows = coarsened(rows)
                    elif table == TelemetryRow.TABLE:
                        rows = rows.filter(pc.is_in(rows["metric"], pa.array(SHOWN)))
                    write_small(copy, rows)


def write_small(path: Path, rows: pa.Table) -> None:
    """Write a table in few bytes: of few rows, dictionaries, statistics and the schema of Arrow are most of a file."""
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "write_page_checksum": True}
    options |= {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    with atomic_file(path) as file, pq.ParquetWriter(file, rows.schema, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({VERSION_KEY: str(SCHEMA_VERSION)})


def compress(store: Store) -> None:
    """Write every table of a store again in few bytes."""
    for table in TABLES:
        for file in sorted(store.path.glob(f"tables/{table}/*/*/*.parquet")):
            write_small(file, read_parquet(file, arrow_schema(table)))


def coarsened(rows: pa.Table) -> pa.Table:
    """Return the rows of histograms with buckets joined that start within a step of each other."""
    low_us = np.maximum(np.rint(rows["low_s"].to_numpy() * 1e6), 1)
    steps = pa.array(np.floor(np.log(low_us) / np.log(STEP)))
    grouped = (
        rows.append_column("step", steps)
        .group_by(["trial_id", "series", "step"], use_threads=False)
        .aggregate([("low_s", "min"), ("high_s", "max"), ("count", "sum")])
    )
    columns = dict(zip(rows.column_names, ("trial_id", "series", "low_s_min", "high_s_max", "count_sum"), strict=True))
    table = pa.table([grouped[column] for column in columns.values()], names=list(columns)).cast(rows.schema)
    return table.sort_by([("trial_id", "ascending"), ("series", "ascending"), ("low_s", "ascending")])


READ = ("title", "question", "source", "answer", "claims", "published")
"""Fields of a scenario that say how its runs are read."""


def read_as_today(store: Store) -> None:
    """Give the runs of a store what their scenarios say today about how to read them."""
    for run in store.runs():
        path = run.path / "manifest.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        fields = fields_today(content["scenario"]["name"], content["scale"])
        old = {name: value for name, value in content["scenario"].items() if name not in READ or name in fields}
        content["scenario"] = {**old, **fields}
        path.write_bytes(to_json(content, indent=2) + b"\n")


def fields_today(name: str, scale: str) -> dict[str, Any]:
    """Return those fields of a shipped scenario, as a manifest has them."""
    document = read_experiment(name, SCALE.validate_python(scale)).document.data
    return {field: document[field] for field in READ if field in document}


if __name__ == "__main__":
    if sys.argv[1:2] in (["--claims"], ["--compress"]):
        (read_as_today if sys.argv[1] == "--claims" else compress)(Store(Path(sys.argv[2])))
        sys.exit()
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--without", action="append", default=[], choices=sorted(TABLES))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()
    left_out = {*given.without, *(LARGE if given.small else ())}
    record(Store(given.source), Store(given.target), given.runs, left_out)
