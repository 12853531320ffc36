"""`benchkit.load`: stored tables for notebooks and scripts, and their usable trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from benchkit.errors import InputError, suggestion
from benchkit.models import Scale
from benchkit.models.base import Name
from benchkit.models.metrics import METRICS, metric_column
from benchkit.models.rows import TABLES, column_names
from benchkit.registry import Registry
from benchkit.store import tables
from benchkit.store.layout import Partition
from benchkit.store.store import Store, open_store
from benchkit.store.tables import factor_columns, has_factors
from benchkit.validation import is_valid_name

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

Engine = Literal["pandas", "dask"]
"""Library of the returned table."""


@dataclass(frozen=True)
class Selection:
    """Rows of a table: of some runs, and of some of their trials."""

    table: str
    store: Store
    runs: Collection[str] | None
    """None: all."""
    scenario: str | None
    """None: any."""
    trials: Mapping[str, Sequence[str]] | None
    """Ids of trials by run; None: all rows."""

    def parts(self) -> list[Partition]:
        """Return scenario and run of each part; runs without a selected trial are omitted."""
        runs = self.runs if self.trials is None else self.trials.keys()
        return self.store.partitions(self.table, runs, self.scenario)

    def factors(self) -> pd.DataFrame | None:
        """Return the levels of all cells, with one read; None for a table without cells."""
        return factor_columns(self.store, self.runs, self.scenario) if has_factors(self.table) else None


ENGINES: Registry[Callable[[Selection], Any]] = Registry("benchkit.engines", {}, Callable)
"""Functions of plugins that return a selection as a table of another library, by the library's name."""

StoredKind = Literal["measure", "control", "profile", "trace", "calibrate", "probe", "split"]
"""Kind of a trial; `split` is one whose block was interrupted and repeated."""


class RowOptions(TypedDict, total=False):
    """Keyword arguments of `load` that select rows."""

    store: str | Path | Store | None
    run: str | None
    run_id: str | None
    scenario: str | None
    scale: Scale | None
    kind: StoredKind | None
    valid_for: str | Sequence[str] | None


@overload
def load(table: str, *, engine: Literal["pandas"] = "pandas", **rows: Unpack[RowOptions]) -> pd.DataFrame: ...


@overload
def load(table: str, *, engine: Literal["dask"], **rows: Unpack[RowOptions]) -> dd.DataFrame: ...


def load(
    table: str,
    *,
    store: str | Path | Store | None = None,
    run: str | None = None,
    run_id: str | None = None,
    scenario: str | None = None,
    scale: Scale | None = None,
    kind: StoredKind | None = None,
    valid_for: str | Sequence[str] | None = None,
    engine: Engine = "pandas",
) -> pd.DataFrame | dd.DataFrame:
    """Read a stored table as a DataFrame, one row as `benchkit/store/README.md` says, in SI units.

    Without any selection it has the rows of all runs: also of invalid and profiled trials, of all scenarios and scales.
    A median over it means nothing. For figures, name a run and the metric:
    `load("trials", run="latest", valid_for="rps")`.

    - `store`: folder or URL of the store; else BENCHKIT_STORE, else ./results.
    - `run`: a run's id, the beginning of it, or `latest`: with `scenario` or `scale`, the latest of these runs.
    - `run_id`: a run's exact id.
    - `scenario`, `scale`: only runs of this scenario, and of this scale (`paper`, `lab`, `smoke`).
    - `kind`: only trials of this kind, and rows that belong to them. The default is all, with `valid_for` `measure`.
    - `valid_for`: one or several metrics (columns of `trials`). Only trials, and rows that belong to them, that have a
      usable value of each. No invalid finding names the metric, and a percentile has enough requests. Suspect trials
      stay, and so do trials that were never judged.
    - `engine`: `dask` gives a DataFrame of Dask with a partition for each run, for tables larger than memory. Rows are
      read when they are computed; factors, and the trials that `kind` and `valid_for` select, immediately.

    Added columns: `scenario` and `run_id`, and in tables with `cell_id` a `factor_<name>` for each factor of the runs
    read. Its values are numbers if all its levels are numbers, else text; null where a run has no such factor.

    Raises InputError for an unknown store, table, run, scenario, scale, kind, metric or engine, and for an engine that
    is not installed. It is also raised for a selection by trial in a table without trials, and for files that are
    damaged or of a newer benchkit.
    """
    if table not in TABLES:
        raise InputError(f"no table {table!r}", why=suggestion(table, TABLES))
    if engine != "pandas" and engine not in ENGINES:
        raise InputError(f"no engine {engine!r}", why=ENGINES.why_unknown(engine, ["pandas", *ENGINES]))
    where = open_store(store, must_exist=True)
    metrics = _metrics(valid_for)
    by_trial = bool(metrics) or kind is not None
    if by_trial and "trial_id" not in column_names(table):
        raise InputError(f"table {table!r} has no trials to select", hint="omit `kind` and `valid_for`")
    selected = _selected_run(where, run, run_id, scenario, scale)
    if selected is not None:
        scenario = None
        runs: Sequence[str] | None = [selected]
    else:
        runs = None if scale is None else _runs_of(where, scenario, scale)
    if selected is not None and not where.knows(selected):
        hint = "`benchkit results list` shows the runs of the store; `benchkit.runs()` returns them"
        raise InputError(f"no run {selected!r}", where=f"store {where.location}", hint=hint)
    if scenario is not None and not is_valid_name(scenario, Name):
        raise InputError(f"no scenario can have the name {scenario!r}")
    usable = None
    if by_trial:
        trials = tables.load("trials", store=where, runs=runs, scenario=scenario)
        usable = _usable_trials(where, trials, metrics, kind)
    if engine == "pandas":
        if usable is not None and table == "trials":
            return usable.reset_index(drop=True)
        frame = tables.load(table, store=where, runs=runs, scenario=scenario)
        return (frame if usable is None else frame[frame["trial_id"].isin(usable["trial_id"])]).reset_index(drop=True)
    ids = None if usable is None else {str(run): list(rows) for run, rows in usable.groupby("run_id")["trial_id"]}
    selection = Selection(table, where, runs, scenario, ids)
    frame_of_dask: dd.DataFrame = ENGINES[engine](selection)
    return frame_of_dask


def _metrics(valid_for: str | Sequence[str] | None) -> tuple[str, ...]:
    metrics = tuple(map(metric_column, (valid_for,) if isinstance(valid_for, str) else valid_for or ()))
    for metric in metrics:
        if metric not in METRICS:
            raise InputError(f"no metric {metric!r}", why=suggestion(metric, METRICS))
    return metrics


def _selected_run(
    store: Store, run: str | None, run_id: str | None, scenario: str | None, scale: str | None
) -> str | None:
    if run is not None and run_id is not None:
        raise InputError("both `run` and `run_id` are given", hint="name one run with either of them")
    if scenario is None and scale is None:
        return run_id if run is None else store.run(run).run_id
    runs = _runs_of(store, scenario, scale)
    what = " and ".join(
        f"{name} {value!r}" for name, value in (("scenario", scenario), ("scale", scale)) if value is not None
    )
    if not runs and not (scale is None and store.partitions("trials", None, scenario)):
        hint = "`benchkit.runs()` returns the runs of the store with their scenarios and scales"
        raise InputError(f"no run of {what}", where=f"store {store.location}", hint=hint)
    if run == "latest":
        return runs[-1]
    wanted = run_id if run is None else store.run(run).run_id
    if wanted is not None and wanted not in runs:
        raise InputError(f"run {wanted} is not of {what}", where=f"store {store.location}")
    return wanted


def _runs_of(store: Store, scenario: str | None, scale: str | None) -> list[str]:
    return [
        run.run_id
        for run, manifest in store.survey()[0]
        if scenario in (None, manifest.scenario_name) and scale in (None, manifest.scale)
    ]


def _usable_trials(store: Store, trials: pd.DataFrame, metrics: Sequence[str], kind: str | None) -> pd.DataFrame:
    from benchkit.judge.verdicts import exclusions  # noqa: PLC0415 - SciPy, which most calls have no use for

    wanted = kind or ("measure" if metrics else None)
    rows = trials if wanted is None else trials[trials["kind"] == wanted]
    usable = rows.dropna(subset=list(metrics))
    excluded: set[str] = set()
    for run_id, of_run in usable.groupby("run_id") if metrics else ():
        verdicts = tables.load("verdicts", store=store, run_id=str(run_id))
        manifest = store.folder(str(run_id)).manifest()
        excluded |= {
            each.trial_id
            for each in exclusions(of_run, verdicts, manifest)
            if any(each.covers(metric) for metric in metrics)
        }
    return usable[~usable["trial_id"].isin(excluded)]
