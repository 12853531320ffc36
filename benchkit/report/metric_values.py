"""Values of one metric in the measured trials of a run, with the reasons why some are excluded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from benchkit.stats.samples import Exclusion


@dataclass(frozen=True, eq=False)
class MetricValues:
    """Values of one metric.

    `trials` has a row for each trial that has a value, in the order of the blocks. Its columns are cell_id, trial_id,
    block, value, and exclusion, the reason why averages leave the trial out (None if they include it).
    """

    trials: pd.DataFrame
    exclusions: Mapping[str, str]
    """Reason by trial, for every trial of the run that is excluded for this metric."""

    @cached_property
    def by_cell(self) -> Mapping[str, pd.DataFrame]:
        """Trials of each cell that has any."""
        return {str(cell_id): trials for cell_id, trials in self.trials.groupby("cell_id", sort=False)}

    def included(self, cell_id: str) -> list[float]:
        """Return the values of a cell that are not excluded."""
        return self._included.get(cell_id, [])

    def included_or_all(self, cell_id: str) -> list[float]:
        """Return the values of a cell that are not excluded; all of them where all are."""
        return self.included(cell_id) or known(self.by_cell.get(cell_id, self.trials[:0])["value"])

    @cached_property
    def medians(self) -> Mapping[str, float]:
        """Median of the included values of each cell that has any."""
        return {cell_id: float(pd.Series(values).median()) for cell_id, values in self._included.items()}

    @cached_property
    def has_exclusions(self) -> bool:
        """True if any of the values is excluded."""
        return bool(self.trials["exclusion"].notna().any())

    @cached_property
    def _included(self) -> Mapping[str, list[float]]:
        included = self.trials[self.trials["exclusion"].isna()]
        return {str(cell_id): known(values) for cell_id, values in included.groupby("cell_id", sort=False)["value"]}


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
