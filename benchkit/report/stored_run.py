"""A stored run, as figures and reports see it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit.analysis.agreement import Agreement, agreements
from benchkit.analysis.claim_result import ClaimResult
from benchkit.analysis.claims import judge_claims
from benchkit.analysis.compare import compare_all_metrics
from benchkit.analysis.comparison import Comparison
from benchkit.analysis.profiler_cost import profile_pass_exclusions
from benchkit.analysis.run_data import RunData, run_data_from_tables
from benchkit.analysis.samples import Exclusion
from benchkit.analysis.scheduler_share import ServiceProfile, service_profiles
from benchkit.models.profile import Profile
from benchkit.models.run import Manifest
from benchkit.report.cell_labels import CellView, cell_views
from benchkit.results.progress import Progress
from benchkit.results.schema import empty_frame

Found = TypeVar("Found")

_NOTHING: pd.Series[float] = pd.Series(dtype="float64")


def once(find: Callable[[StoredRun], Found]) -> Callable[[StoredRun], Found]:
    """The function, carried out once for each run: what figures, captions and tables share is not looked for again."""
    name = kept_as(find)

    @functools.wraps(find)
    def found(run: StoredRun) -> Found:
        if name not in run.found:
            run.found[name] = find(run)
        kept: Found = run.found[name]
        return kept

    return found


def kept_as(find: Callable[[StoredRun], Any]) -> str:
    """Under which name of `StoredRun.found` stands what a function that is asked `once` has found."""
    return f"{find.__module__}.{find.__qualname__}"


def _none(_trials: tuple[str, ...], _service: str) -> None:
    """No profiles."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One run, read from the store.

    `trials` has the contract's columns of that table and one `factor_<name>` column per factor, a row per trial that
    ended; columns that nothing filled are all null. `hosts` has the contract's columns of that table; `notes` what the
    tools' outputs say against their figures, by trial_id. `table` reads any other table of the run by its name: they may
    be large, so that each is read when something first asks for it.
    """

    manifest: Manifest
    trials: pd.DataFrame
    hosts: pd.DataFrame
    notes: pd.DataFrame = field(default_factory=lambda: empty_frame("notes"))
    table: Callable[[str], pd.DataFrame] = field(default=empty_frame, repr=False)
    progress: Progress = field(default_factory=Progress)
    """What its journal says of trials that failed or were repeated."""
    stacks: Callable[[tuple[str, ...], str], Profile | None] = field(default=_none, repr=False)
    """The profiles of a service in these trials as one, with their stacks; None where the raw files are not there."""

    @cached_property
    def found(self) -> dict[str, Any]:
        """What functions that are asked `once` have found."""
        return {}

    @cached_property
    def cells(self) -> tuple[CellView, ...]:
        """The cells with their names and colours, in the order of the plan."""
        return cell_views(self.manifest)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The reasons of verdicts, by trial_id; empty for a run that was not judged."""
        return self.table("verdicts")

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """What was watched on hosts (`benchkit.models.telemetry` has the metrics); empty where nothing was.

        Of a stored run without the columns that nothing in a report is made of.
        """
        return self.table("telemetry")

    @cached_property
    def latencies(self) -> pd.DataFrame:
        """The buckets of histograms, by trial_id and series."""
        return self.table("latency")

    @cached_property
    def profile_shares(self) -> pd.DataFrame:
        """Shares of profiles by category; empty for a run without profile trials."""
        return self.table("profile_share")

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """Functions in profiles; empty for a run without profile trials."""
        return self.table("profile")

    @cached_property
    def profiled(self) -> tuple[ServiceProfile, ...]:
        """The services that were profiled, cell by cell; none where the run has no profiles."""
        if self.profile_shares.empty:
            return ()
        return service_profiles(
            self.data, self.profile_shares, self.profiles, self.telemetry, exclusions=self.void_in_profile_pass
        )

    @cached_property
    def void_in_profile_pass(self) -> tuple[Exclusion, ...]:
        """Which trials of the profile pass do not count, and why."""
        return profile_pass_exclusions(self.trials, self.verdicts, self.manifest)

    @cached_property
    def data(self) -> RunData:
        """The run as comparisons see it: less the trials that verdicts void."""
        return run_data_from_tables(self.manifest, self.trials, self.verdicts)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The cells over their baseline, metric by metric."""
        return compare_all_metrics(self.data)

    @cached_property
    def claims(self) -> tuple[ClaimResult, ...]:
        """What became of the claims of the scenario."""
        return judge_claims(self.data)

    @cached_property
    def agreements(self) -> tuple[Agreement, ...]:
        """How far the tools of the run disagree; empty where no cells differ in their tool alone."""
        return agreements(self.trials, self.data.caveats)

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The trials that figures and medians rest on: `kind` is `measure`; never control or profile trials."""
        measured = self.trials[self.trials["kind"] == "measure"]
        return measured.sort_values(["block", "position"], kind="stable")

    def of_cell(self, cell_id: str) -> pd.DataFrame:
        """The measured trials of a cell, in the order of their blocks."""
        return self._by_cell.get(cell_id, self.measured.iloc[:0])

    def figures(self, metric: str) -> Mapping[str, Sequence[tuple[str, int, float]]]:
        """(trial_id, block, figure) of the measured trials of each cell that have a figure, whether or not it counts."""
        if metric not in self._figures:
            found: dict[str, list[tuple[str, int, float]]] = {}
            columns = (self.measured[name] for name in ("cell_id", "trial_id", "block"))
            for cell_id, trial_id, block, value in zip(*columns, numbers(self.measured[metric]), strict=True):
                if not math.isnan(value):
                    found.setdefault(str(cell_id), []).append((str(trial_id), int(block), value))
            self._figures[metric] = found
        return self._figures[metric]

    @cached_property
    def _figures(self) -> dict[str, dict[str, list[tuple[str, int, float]]]]:
        return {}

    def telemetry_of(self, cell_id: str) -> pd.DataFrame:
        """What was watched on hosts during the measured trials of a cell."""
        return self.telemetry.iloc[self._watched.get(cell_id, [])]

    @cached_property
    def _watched(self) -> dict[str, npt.NDArray[np.intp]]:
        """The rows of telemetry of each cell; found once, for there may be a million of them."""
        codes, trials = pd.factorize(self.telemetry["trial_id"])
        cell_of = dict(zip(self.measured["trial_id"], self.measured["cell_id"], strict=True))
        cells, names = pd.factorize(pd.Series([cell_of.get(trial_id) for trial_id in trials], dtype="object"))
        of_row = np.append(cells, -1)[codes]
        order = np.argsort(of_row, kind="stable")
        ends = np.searchsorted(of_row[order], np.arange(len(names) + 1))
        return {str(name): order[ends[i] : ends[i + 1]] for i, name in enumerate(names)}

    def void(self, metric: str) -> Mapping[str, str]:
        """Why figures of trials do not count in a metric, by trial: what is drawn of them is marked, and in no median."""
        if metric not in self._void:
            self._void[metric] = {each.trial_id: each.reason for each in self.data.exclusions if each.covers(metric)}
        return self._void[metric]

    def counting(self, cell_id: str, metric: str) -> pd.Series[float]:
        """The figures of a cell's measured trials that count."""
        return self._counting(metric).get(cell_id, _NOTHING)

    def medians(self, metric: str) -> Mapping[str, float]:
        """The median of the figures that count, of each cell that has any."""
        if metric not in self._medians:
            self._medians[metric] = {
                cell_id: float(np.median(values)) for cell_id, values in self._counting(metric).items()
            }
        return self._medians[metric]

    def _counting(self, metric: str) -> Mapping[str, pd.Series[float]]:
        if metric not in self._counted:
            trials = self.measured[~among(self.measured["trial_id"], self.void(metric))]
            values = numbers(trials[metric])
            of_cells = values.dropna().groupby(trials["cell_id"][values.notna()], sort=False)
            self._counted[metric] = {str(cell_id): own for cell_id, own in of_cells}
        return self._counted[metric]

    @cached_property
    def _medians(self) -> dict[str, dict[str, float]]:
        return {}

    @cached_property
    def _counted(self) -> dict[str, dict[str, pd.Series[float]]]:
        return {}

    @cached_property
    def _void(self) -> dict[str, dict[str, str]]:
        return {}

    @cached_property
    def _by_cell(self) -> dict[str, pd.DataFrame]:
        return {str(cell_id): trials for cell_id, trials in self.measured.groupby("cell_id", sort=False)}


def numbers(column: pd.Series) -> pd.Series[float]:
    """A column of numbers, whatever it is stored as; absent is NaN."""
    return pd.to_numeric(column).astype("float64")


def among(trial_ids: pd.Series[str], those: Container[str]) -> npt.NDArray[np.bool_]:
    """Which of the trials are among those; `isin` makes an Arrow scalar of each of those first, whenever it is asked."""
    return np.fromiter((trial_id in those for trial_id in trial_ids.to_numpy()), dtype=np.bool_, count=len(trial_ids))


def known(column: pd.Series) -> list[float]:
    """The numbers of a column that are there."""
    return [float(number) for number in numbers(column).dropna()]
