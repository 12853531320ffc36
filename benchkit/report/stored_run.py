"""A stored run with all that figures and reports show, and its reader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

import pandas as pd

from benchkit.comparison.answer import Answer
from benchkit.comparison.cell_labels import CellView, cell_views
from benchkit.comparison.claims import ClaimResult, judge_claims
from benchkit.comparison.compare import RunComparison, answer_of_run, classes_of_run, compare_all_metrics, held_of
from benchkit.comparison.cpu_profiles import ServiceProfile, service_profiles
from benchkit.comparison.load_curves import HeldRate
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData, read_table, run_data_from_tables
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion
from benchkit.store.journal import RunProgress, read_progress
from benchkit.store.parquet_files import empty_frame
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load, load_trials

PerRun = TypeVar("PerRun")


@dataclass(frozen=True, eq=False)
class MetricValues:
    """Values of one metric.

    `trials` has a row for each trial that has a value, in the order of the blocks. Its columns are cell_id, trial_id,
    block, value, and exclusion: the reason why averages exclude the trial, or None.
    """

    trials: pd.DataFrame
    exclusions: Mapping[str, str]
    """Reason by trial, for every trial of the run that is excluded for this metric."""

    @cached_property
    def by_cell(self) -> Mapping[str, pd.DataFrame]:
        """Trials of each cell that has any."""
        return {str(cell_id): trials for cell_id, trials in self.trials.groupby("cell_id", sort=False)}

    def included_or_all(self, cell_id: str) -> list[float]:
        """Return the included values of a cell; all values where none is included."""
        trials = self.by_cell.get(cell_id, self.trials[:0])
        return known(trials["value"][trials["exclusion"].isna()]) or known(trials["value"])


def metric_values(measured: pd.DataFrame, exclusions: Iterable[Exclusion], metric: str) -> MetricValues:
    """Return the values of a metric in these trials, rows of `trials` in the order of the blocks."""
    reasons = {each.trial_id: each.reason for each in exclusions if each.covers(metric)}
    trials = measured[["cell_id", "trial_id", "block"]].assign(value=numbers(measured[metric])).dropna(subset="value")
    reason = [reasons.get(str(trial_id)) for trial_id in trials["trial_id"]]
    return MetricValues(trials.assign(exclusion=pd.Series(reason, index=trials.index, dtype=object)), reasons)


def numbers(column: pd.Series) -> pd.Series[float]:
    """Return a column as floats; absent is NaN."""
    return pd.to_numeric(column).astype("float64")


def known(column: pd.Series) -> list[float]:
    """Return the numbers of a column that are present."""
    return [float(number) for number in numbers(column).dropna()]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One run, read from a store.

    `trials` has a row per ended trial: the columns of that table, and one `factor_<name>` column per factor. `hosts`
    and `notes` have the columns of their tables. What is large or takes time is read or computed at its first use.
    """

    manifest: Manifest
    trials: pd.DataFrame
    hosts: pd.DataFrame
    notes: pd.DataFrame = field(default_factory=lambda: empty_frame("notes"))
    table: Callable[[str], pd.DataFrame] = field(default=empty_frame, repr=False)
    """Reader of any other table of the run, by its name."""
    folder: RunFolder | None = field(default=None, repr=False)
    """Folder with its raw files, which may be missing."""
    progress: RunProgress = field(default_factory=RunProgress)
    """Failed, skipped and repeated trials, from the journal."""

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Reasons of verdicts by trial_id; empty for a run that was not judged."""
        return self.table("verdicts")

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Telemetry samples (`benchkit.models.telemetry` has the metrics), with the columns that reports use."""
        return self.table("telemetry")

    @cached_property
    def cells(self) -> tuple[CellView, ...]:
        """Cells with their labels and colours, in the order of the plan."""
        return cell_views(self.manifest)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Label of each cell by its id."""
        return {view.cell_id: view.label for view in self.cells}

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Trials of the kind `measure`, in the order of block and position; never control or profile trials."""
        measured = self.trials[self.trials["kind"] == "measure"]
        return measured.sort_values(["block", "position"], kind="stable")

    @cached_property
    def data(self) -> RunData:
        """The run as comparisons see it, with its exclusions."""
        return run_data_from_tables(self.manifest, self.trials, self.verdicts, table=self.table, folder=self.folder)

    @cached_property
    def comparisons(self) -> tuple[RunComparison, ...]:
        """Ratios of the cells to their baseline, one comparison per metric."""
        return compare_all_metrics(self.data)

    @cached_property
    def answer(self) -> Answer:
        """The result in sentences, and the trust in them."""
        return answer_of_run(self.data, self.comparisons, self.class_ratios)

    @cached_property
    def held(self) -> HeldRate | None:
        """Its phase at a held rate; None for a run without one."""
        return held_of(self.data)

    @cached_property
    def class_ratios(self) -> tuple[Ratio, ...]:
        """Ratios of each class of requests; empty for loads without classes."""
        return classes_of_run(self.data)

    @cached_property
    def claims(self) -> tuple[ClaimResult, ...]:
        """Results of the scenario's claims."""
        return judge_claims(self.data)

    @cached_property
    def service_profiles(self) -> tuple[ServiceProfile, ...]:
        """Profiled services, cell by cell; empty for a run without profiles."""
        return () if self.table("profile_share").empty else service_profiles(self.data)

    @cached_property
    def values(self) -> Callable[[str], MetricValues]:
        """Function that gives the values of a metric in the measured trials, each metric computed once."""
        return functools.cache(functools.partial(metric_values, self.measured, self.data.exclusions))

    def cells_in(self, cell_ids: Container[str]) -> list[CellView]:
        """Return the cells with these ids, in the order of the plan."""
        return [view for view in self.cells if view.cell_id in cell_ids]

    def trials_of(self, cell_id: str) -> pd.DataFrame:
        """Return the measured trials of a cell, in the order of their blocks."""
        return self._by_cell.get(cell_id, self.measured.iloc[:0])

    @cached_property
    def _by_cell(self) -> dict[str, pd.DataFrame]:
        return {str(cell_id): trials for cell_id, trials in self.measured.groupby("cell_id", sort=False)}


def cached_per_run(compute: Callable[[StoredRun], PerRun]) -> Callable[[StoredRun], PerRun]:
    """Return the function with a cache of its result for each run, which lives as long as the run."""
    results: WeakKeyDictionary[StoredRun, PerRun] = WeakKeyDictionary()

    @functools.wraps(compute)
    def cached(run: StoredRun) -> PerRun:
        if run not in results:
            results[run] = compute(run)
        return results[run]

    return cached


def read_run(store: Store, run: RunFolder) -> StoredRun:
    """Read a run. Raises InputError if it is damaged or a newer benchkit wrote it."""
    manifest, trials = load_trials(run, store)
    return StoredRun(
        manifest=manifest,
        trials=trials,
        hosts=load("hosts", store=store, run_id=run.run_id),
        notes=load("notes", store=store, run_id=run.run_id),
        table=functools.cache(functools.partial(read_table, store, run.run_id)),
        folder=run,
        progress=read_progress(run.history()),
    )
