"""A store of many synthetic runs: recorded runs under new ids, each with many times its trials.

    python -m tests.bench.large_store FOLDER --runs 2000 --bytes 20e9

Rows come from the recorded runs. Each copy of a trial has a factor of its own, drawn with the number of the run as
seed. By it the copy's rates, latencies, counts and telemetry differ from the recorded ones. Samples of telemetry differ
in the sixth digit, as copies would be compressed away. The same arguments write the same files.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchkit.models.rows import TABLES
from benchkit.store.checksums import read_checksums, write_checksums
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables

RECORDED = Path(__file__).parents[2] / "notebooks" / "recorded"
LARGE = ("latency", "telemetry")
"""Tables that make up the size of a store."""
MIN_ROWS = 1000
"""Rows of `latency` that a recorded run needs to be copied."""
SPREAD = 0.03
"""Standard deviation of the logarithm of a trial's factor."""
NOISE = 1e-6
"""Largest relative change of a sample of telemetry beyond the factor of its trial."""
SCALED = {
    "trials": re.compile(r"rps|rate_achieved|latency_(mean|max|p\d+)_s|server_cpu_s_per_request"),
    "latency": re.compile("count"),
    "telemetry": re.compile("value"),
}
"""Columns that the factor of a trial changes, by table."""
TRIAL_ID = re.compile(r".+\.b(\d+)(.*)")
SAMPLE = 4
"""Copies of each trial in the run that shows how large a copy is."""


@dataclass(frozen=True)
class _Table:
    """A table of a recorded run with each of its rows several times; strings are dictionaries."""

    content: pa.Table
    trials: npt.NDArray[np.int32] | None
    """Index of the trial of each row; None where rows have none."""


@dataclass(frozen=True)
class _Source:
    """A recorded run with each of its trials several times."""

    run: RunFolder
    copies: int
    tables: Mapping[str, _Table]
    trials: Sequence[str]
    """Ids of the recorded trials."""
    blocks: int

    def write(self, store: Store, number: int) -> RunFolder:
        """Write this run as the run of a number to a store, unless it is there."""
        rng = np.random.default_rng(number)
        manifest = self.run.manifest()
        run_id = f"{self.run.run_id}-{number:05}"
        if store.has(run_id):
            if read_checksums(store, store.folder(run_id)) is not None:  # they are written last
                return store.folder(run_id)
            store.remove(store.folder(run_id))
        at = {"started_at": manifest.started_at + timedelta(hours=number)}
        blocks = manifest.blocks * self.copies
        made = store.create(manifest.model_copy(update={"run_id": run_id, "blocks": blocks, **at}))
        shutil.copyfile(self.run.journal_file, made.journal_file)
        ids = pa.array([self._trial_id(run_id, trial, copy) for copy in range(self.copies) for trial in self.trials])
        factors = np.exp(rng.normal(0, SPREAD, len(ids)))
        for name, table in self.tables.items():
            folder = store.table_folder(name, manifest.scenario_name, run_id)
            folder.mkdir(parents=True)
            content = table.content
            if table.trials is not None:
                factor = factors[table.trials]
                if name == "telemetry":
                    factor *= 1 + NOISE * rng.random(len(factor))
                content = _renamed(name, content, pa.DictionaryArray.from_arrays(pa.array(table.trials), ids), factor)
            strings = [field.name for field in content.schema if pa.types.is_dictionary(field.type)]
            pq.write_table(
                content,
                folder / f"{name}.parquet",
                compression="zstd",
                use_dictionary=[*strings, *({"t_s", "low_s", "high_s"} & set(content.schema.names))],
                store_schema=False,  # which has the dictionaries: readers get strings, as of any run
                write_page_checksum=True,
            )
        write_checksums(store, made)
        return made

    def _trial_id(self, run_id: str, trial: str, copy: int) -> str:
        match = TRIAL_ID.fullmatch(trial)
        if match is None:
            raise ValueError(trial)
        return f"{run_id}.b{int(match[1]) + copy * self.blocks:03}{match[2]}"


def make_large_store(folder: Path, runs: int, size: float, *, processes: int = 1) -> Store:
    """Write a store of this many runs, of which `latency` and `telemetry` have about `size` bytes in all.

    Runs that are there stay, so that an interrupted call is continued by the next one.
    """
    store = Store(folder)
    write = partial(_write, folder, runs, size)
    if processes == 1:
        for number in range(runs):
            write(number)
    else:
        with ProcessPoolExecutor(processes) as pool:
            for _ in pool.map(write, range(runs), chunksize=1):
                pass
    return store


def large_bytes(store: Store) -> int:
    """Return the size of the tables that make up the size of a store."""
    return sum(path.stat().st_size for table in LARGE for path in store.table(table).rglob("*.parquet"))


def _write(folder: Path, runs: int, size: float, number: int) -> None:
    sources = _sources(size / runs)
    sources[number % len(sources)].write(Store(folder), number)


@cache
def _sources(run_bytes: float) -> tuple[_Source, ...]:
    """Return the recorded runs with as many copies of their trials as give runs of this size."""
    recorded = Store(RECORDED)
    usable = [run for run in recorded.runs() if _latency_rows(recorded, run) >= MIN_ROWS]
    return tuple(_source(recorded, run, _copies(recorded, run, run_bytes)) for run in usable)


def _copies(recorded: Store, run: RunFolder, run_bytes: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        sample = Store(Path(folder))
        _source(recorded, run, SAMPLE).write(sample, 0)
        return max(1, round(run_bytes / (large_bytes(sample) / SAMPLE)))


def _tables(recorded: Store, run: RunFolder) -> dict[str, pa.Table]:
    """Return all tables of a recorded run that have rows."""
    tables = RunTables(recorded, run.manifest().scenario_name, run.run_id)
    rows = {name: tables.rows(name) for name in TABLES}
    return {name: content for name, content in rows.items() if content.num_rows}


def _latency_rows(recorded: Store, run: RunFolder) -> int:
    latency = _tables(recorded, run).get("latency")
    return 0 if latency is None else latency.num_rows


def _source(recorded: Store, run: RunFolder, copies: int) -> _Source:
    tables = _tables(recorded, run)
    trials = tables["trials"]["trial_id"].to_pylist()
    blocks = pc.max(tables["trials"]["block"]).as_py()
    return _Source(
        run, copies, {name: _repeated(table, trials, copies, blocks) for name, table in tables.items()}, trials, blocks
    )


def _repeated(table: pa.Table, trials: Sequence[str], copies: int, blocks: int) -> _Table:
    columns = {
        name: column.combine_chunks().dictionary_encode() if pa.types.is_string(column.type) else column
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    if "trial_id" not in columns:
        return _Table(pa.table(columns).replace_schema_metadata(table.schema.metadata), None)
    of_row = pc.index_in(table["trial_id"], pa.array(trials)).to_numpy().astype(np.int32)
    copy = np.repeat(np.arange(copies, dtype=np.int32), table.num_rows)
    content = pa.concat_tables([pa.table(columns)] * copies).combine_chunks()
    if "block" in columns:
        shifted = content["block"].to_numpy() + blocks * copy
        content = content.set_column(content.schema.get_field_index("block"), "block", pa.array(shifted))
    return _Table(content.replace_schema_metadata(table.schema.metadata), np.tile(of_row, copies) + len(trials) * copy)


def _renamed(name: str, content: pa.Table, trial_ids: pa.DictionaryArray, factor: npt.NDArray[np.float64]) -> pa.Table:
    """Return rows under new trial ids, with the columns of `SCALED` multiplied by a factor of each row."""
    replaced = {"trial_id": trial_ids}
    for column in content.schema.names:
        if name in SCALED and SCALED[name].fullmatch(column):
            scaled = pc.multiply(content[column].cast(pa.float64()), pa.array(factor))
            if pa.types.is_integer(content[column].type):
                scaled = pc.max_element_wise(pc.round(scaled), 1.0).cast(pa.int64())
            replaced[column] = scaled
    for column, values in replaced.items():
        content = content.set_column(content.schema.get_field_index(column), column, values)
    return content


def main() -> None:
    """Write the store that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--bytes", type=float, default=20e9, help="of latency and telemetry")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    store = make_large_store(arguments.folder, arguments.runs, arguments.bytes, processes=arguments.processes)
    print(f"{len(store.runs())} runs, {large_bytes(store) / 1e9:.2f} GB of {' and '.join(LARGE)} in {store.location}")


if __name__ == "__main__":
    main()
