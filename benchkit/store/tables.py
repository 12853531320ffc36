"""The Parquet tables of runs: one file per trial, merged into one when the run ends, and read over all runs.

There is one file per trial, so that every reader of the store sees the trials of a run that still runs or was killed.
The end of a run then does not read all raw files again.

Every file is written under another name, synced and renamed. The merged file names the files whose rows it contains
(`benchkit.replaces` in its metadata), and these are deleted after it has its name. A crash between these steps loses no
row: benchkit's readers skip the files that are replaced, and the next merge, resume or `reparse` deletes them.

The small tables of all runs can be copied into one compact file each, so that a thousand runs are read as fast as one.
The runs' own files stay for every reader that knows hive partitions. A compact file has the partition keys as columns,
and names the files that it copies. A run whose files were written or removed since then is read from its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from benchkit.errors import InputError, suggestion
from benchkit.models.base import Name
from benchkit.models.rows import TABLES, FactorRow, TrialRow, column_names
from benchkit.models.run import SCHEMA_VERSION, Manifest
from benchkit.store.checksums import update_checksums
from benchkit.store.durable_files import PARTIAL, file_states, fsync, make_folders
from benchkit.store.layout import Partition
from benchkit.store.parquet_files import (
    REPLACES_KEY,
    VERSION_KEY,
    Rows,
    arrow_schema,
    arrow_table,
    concat_rows,
    current_files,
    read_file_schema,
    read_parquet,
    rows_from_arrow,
    write_parquet,
)
from benchkit.store.row_builders import INTERRUPTED
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store, open_store
from benchkit.validation import is_valid_name

if TYPE_CHECKING:
    import pandas as pd

    from benchkit.store.trial_tables import TrialTables


PARTITION_KEYS = ("scenario", "run_id")
_COPIED_KEY = b"benchkit.compact"

FileStates = Mapping[Partition, str]
"""Names, sizes and times of the files of each part, as text to compare."""


MAX_READS = 5
"""Attempts to read files of runs that are merged or removed meanwhile."""

CELL_KEYS = ["run_id", "cell_id"]
"""Columns that name a cell of a run."""


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
        copied = [empty_rows(table)]
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


def read_compact(store: Store, table: str, states: FileStates) -> tuple[pa.Table | None, frozenset[Partition]]:
    """Return the rows of a compact file of the runs that have not changed since, and these runs.

    The rows are None where there is no compact file, or one of another version.
    """
    path = store.compact_file(table)
    if TABLES[table].IS_LARGE or not path.is_file():
        return None, frozenset()
    try:
        stored, schema = read_file_schema(path), empty_rows(table).schema
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


def _read_part(store: Store, table: str, part: Partition) -> tuple[pa.Table, str | None]:
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


def empty_rows(table: str) -> pa.Table:
    """Return a table without rows, with its partition keys as columns."""
    return with_keys(arrow_schema(table).empty_table(), ("", ""))


def with_keys(rows: pa.Table, part: Partition) -> pa.Table:
    """Return the rows with their partition keys as columns."""
    for name, value in zip(PARTITION_KEYS, part, strict=True):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return rows


class RunTables:
    """The tables of one run, for its only writer."""

    def __init__(self, store: Store, scenario: str, run_id: str) -> None:
        self._store = store
        self._key = scenario, run_id

    def add_trial(self, tables: TrialTables) -> None:
        """Write the rows of a trial."""
        for table, rows in tables.by_table().items():
            self.add(table, tables.trial.trial_id, rows)

    def add(self, table: str, name: str, rows: Rows) -> None:
        """Write rows as one more file of the table, or in place of the file of that name; without rows, write none."""
        content = arrow_table(table, rows)
        if content.num_rows:
            folder = self.folder(table)
            make_folders(folder)
            write_parquet(folder / f"{name}.parquet", content)

    def replace(self, table: str, *parts: Rows) -> None:
        """Replace all rows of the run in the table by these, in one file."""
        content = concat_rows(table, *parts)
        folder = self.folder(table)
        make_folders(folder)
        merged = folder / f"{table}.parquet"
        replaced = sorted(path.name for path in folder.glob("*.parquet") if path != merged)
        if replaced:
            content = content.replace_schema_metadata(
                {**content.schema.metadata, REPLACES_KEY: json.dumps(replaced).encode()}
            )
        write_parquet(merged, content)
        if leftovers := [*(folder / name for name in replaced), *folder.glob(f".*{PARTIAL}")]:
            _remove_replaced(folder, leftovers)

    def merge(self) -> bool:
        """Merge the files of each table into one; return True if a table had several."""
        unmerged = [table for table in TABLES if len(list(self.folder(table).glob("*.parquet"))) > 1]
        for table in unmerged:
            self.replace(table, self.rows(table))
        return bool(unmerged)

    def mark_interrupted(self, trial_ids: Sequence[str]) -> None:
        """Mark stored trials whose block was interrupted by a pause and is repeated."""
        for path in self._files(TrialRow.TABLE):
            rows = read_parquet(path, arrow_schema(TrialRow.TABLE))
            is_marked = pc.is_in(rows["trial_id"], value_set=pa.array(trial_ids, pa.string()))
            if pc.any(is_marked).as_py():
                index = rows.schema.get_field_index("kind")
                write_parquet(path, rows.set_column(index, "kind", pc.if_else(is_marked, INTERRUPTED, rows["kind"])))

    def rows(self, table: str) -> pa.Table:
        """Return all rows of the run in the table."""
        schema = arrow_schema(table)
        return concat_rows(table, *(read_parquet(file, schema) for file in self._files(table)))

    def trials(self) -> list[TrialRow]:
        """Return all rows of the run in `trials`."""
        return rows_from_arrow(TrialRow, self.rows(TrialRow.TABLE))

    def folder(self, table: str) -> Path:
        """Return the folder of the run's rows of a table. Raises InputError for names that benchkit never gives."""
        return self._store.table_folder(table, *self._key)

    def _files(self, table: str) -> tuple[Path, ...]:
        return current_files(table, sorted(self.folder(table).glob("*.parquet")))


def _remove_replaced(folder: Path, files: Sequence[Path]) -> None:
    for path in files:
        path.unlink()
    fsync(folder)


def merge_killed_runs(store: Store) -> tuple[int, dict[str, InputError]]:
    """Merge the files of runs that were killed before they did it themselves.

    Return the number of these runs, and the errors of those with damaged files, by run id. A run that another process
    works on, or removes, is skipped.
    """
    merged, damaged = 0, {}
    for run, manifest in store.survey()[0]:
        try:
            with run.try_lock() as is_ours:
                if is_ours and RunTables(store, manifest.scenario_name, run.run_id).merge():
                    merged += 1
                    update_checksums(store, run)
        except InputError as error:
            damaged[run.run_id] = error
        except FileNotFoundError:
            if run.manifest_file.exists():
                raise
    return merged, damaged


def load(
    table: str,
    *,
    store: str | Path | Store | None = None,
    run_id: str | None = None,
    runs: Collection[str] | None = None,
    scenario: str | None = None,
) -> pd.DataFrame:
    """Read a stored table as a DataFrame: rows as the contract defines them, with the columns `scenario` and `run_id`.

    Tables that have `cell_id` also get a column `factor_<name>` for each factor of the runs read. It has numbers if all
    its levels are numbers, else text, and null where a run has no such factor. `run_id`, `runs` or `scenario` reads
    that part alone. Raises InputError for a store, a table or a run that does not exist, for damaged files and for
    those of a newer schema.
    """
    source = open_store(store, must_exist=True)
    require_selection(source, table, run_id, scenario)
    selected = runs if run_id is None else [run_id]
    frame: pd.DataFrame = read_rows(source, table, selected, scenario).to_pandas()
    if not has_factors(table):
        return frame
    return frame.merge(factor_columns(source, selected, scenario), on=CELL_KEYS, how="left", validate="many_to_one")


def require_selection(store: Store, table: str, run_id: str | None, scenario: str | None) -> None:
    """Raise InputError for a table or a run that does not exist, and for what cannot be the name of a scenario."""
    if table not in TABLES:
        raise InputError(f"no table {table!r}", why=suggestion(table, TABLES))
    if run_id is not None and not store.knows(run_id):
        raise InputError(
            f"no run {run_id!r}",
            where=f"store {store.location}",
            hint="`benchkit results list` shows the runs of the store; `benchkit.runs()` returns them",
        )
    if scenario is not None and not is_valid_name(scenario, Name):
        raise InputError(f"no scenario can have the name {scenario!r}")


def load_columns(table: str, columns: Sequence[str], *, store: Store, run_id: str) -> pd.DataFrame:
    """Read some columns of one run's part of a table, without factors: a fraction of the work for a large table."""
    frame: pd.DataFrame = read_rows(store, table, [run_id], None, columns).to_pandas()
    return frame


def load_trials(run: RunFolder, store: Store) -> tuple[Manifest, pd.DataFrame]:
    """Return the manifest of a run and its trials. Raises InputError where the manifest lacks a cell of theirs."""
    manifest, trials = run.manifest(), load(TrialRow.TABLE, store=store, run_id=run.run_id)
    if unknown := unknown_cells(manifest, trials["cell_id"]):
        raise InputError(
            "manifest and tables of the run do not fit together",
            where=str(run.manifest_file),
            why=f"the manifest lacks the cell {unknown[0]}",
            hint="restore the manifest from a backup, or remove the run",
        )
    return manifest, trials


def unknown_cells(manifest: Manifest, cell_ids: Iterable[str]) -> list[str]:
    """Return the cells that the manifest lacks, sorted."""
    return sorted(set(cell_ids) - {cell.cell_id for cell in manifest.cells})


def has_factors(table: str) -> bool:
    """Return True for a table whose rows get a column for each factor."""
    return table != FactorRow.TABLE and "cell_id" in column_names(table)


def factor_columns(store: Store, runs: Collection[str] | None, scenario: str | None) -> pd.DataFrame:
    """Return the levels of the cells of these runs: a row for each run and cell, a column `factor_<name>` each."""
    factors: pd.DataFrame = read_rows(store, FactorRow.TABLE, runs, scenario).to_pandas()
    cells = factors[CELL_KEYS].drop_duplicates()
    for name, rows in factors.groupby("factor", sort=True):
        is_numeric = rows["level_num"].notna().all()
        values = rows[[*CELL_KEYS, "level_num" if is_numeric else "level"]].set_axis(
            [*CELL_KEYS, f"factor_{name}"], axis=1
        )
        cells = cells.merge(values, on=CELL_KEYS, how="left", validate="one_to_one")
    return cells


def read_rows(
    store: Store,
    table: str,
    runs: Collection[str] | None,
    scenario: str | None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read rows of a table, of these runs (None: all) and of that scenario (None: any), with their partition keys.

    They are read again if files are merged between listing and reading them. Raises InputError for damaged files and
    for those of a newer schema.
    """
    for _ in range(MAX_READS - 1):
        try:
            return _read_once(store, table, runs, scenario, columns)
        except FileNotFoundError:
            continue
    return _read_once(store, table, runs, scenario, columns)


def _read_once(
    store: Store, table: str, runs: Collection[str] | None, scenario: str | None, columns: Sequence[str] | None
) -> pa.Table:
    schema = arrow_schema(table)
    parts = store.parts(table, runs=runs, scenario=scenario)
    copy: pa.Table | None = None
    copied: frozenset[tuple[str, str]] = frozenset()
    if runs is None:  # some runs are read from their own files
        copy, copied = read_compact(store, table, {part: file_states(files) for part, files in parts.items()})
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name not in PARTITION_KEYS])
    rows = [with_keys(schema.empty_table(), ("", ""))]
    rows += [] if copy is None else [copy.select(rows[0].schema.names).cast(rows[0].schema)]
    for part, files in parts.items():
        if part not in copied:
            rows += [with_keys(read_parquet(file, schema), part) for file in current_files(table, files)]
    content = pa.concat_tables(rows)
    is_sorted = copy is None or len(copied) == len(parts)
    content = content if is_sorted else content.sort_by([(key, "ascending") for key in PARTITION_KEYS])
    return content if columns is None else content.select(columns)
