"""Values of one metric in the measured trials of a run, with the reasons why some are excluded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

import pandas as pd

from benchkit.stats.samples import Exclusion, geometric_mean


class TrialValue(NamedTuple):
    """Value of a metric in one trial; `exclusion` is the reason why medians leave it out, None if they include it."""

    trial_id: str
    block: int
    value: float
    exclusion: str | None


@dataclass(frozen=True, eq=False)
class MetricValues:
    """Values of one metric by cell, in the order of the blocks; trials without a value are absent."""

    by_cell: Mapping[str, tuple[TrialValue, ...]]
    exclusions: Mapping[str, str]
    """Reason by trial, for every trial of the run that is excluded for this metric."""

    def of_cell(self, cell_id: str) -> tuple[TrialValue, ...]:
        """Return the values of a cell, excluded ones included."""
        return self.by_cell.get(cell_id, ())

    def included(self, cell_id: str) -> list[float]:
        """Return the values of a cell that are not excluded."""
        return [each.value for each in self.of_cell(cell_id) if each.exclusion is None]

    @cached_property
    def medians(self) -> Mapping[str, float]:
        """Median of the included values of each cell that has any."""
        return {cell_id: median(values) for cell_id in self.by_cell if (values := self.included(cell_id))}

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Geometric mean of the included values of each cell that has any."""
        return {cell_id: geometric_mean(values) for cell_id in self.by_cell if (values := self.included(cell_id))}

    @cached_property
    def has_exclusions(self) -> bool:
        """True if any of the values is excluded."""
        return any(each.exclusion is not None for values in self.by_cell.values() for each in values)


def metric_values(measured: pd.DataFrame, exclusions: Iterable[Exclusion], metric: str) -> MetricValues:
    """Return the values of a metric in these trials, rows of `trials` in the order of the blocks."""
    reasons = {each.trial_id: each.reason for each in exclusions if each.covers(metric)}
    rows = measured.assign(value=numbers(measured[metric])).dropna(subset="value")
    by_cell: dict[str, list[TrialValue]] = {}
    columns = (rows[name] for name in ("cell_id", "trial_id", "block", "value"))
    for cell_id, trial_id, block, value in zip(*columns, strict=True):
        by_cell.setdefault(str(cell_id), []).append(
            TrialValue(str(trial_id), int(block), float(value), reasons.get(str(trial_id)))
        )
    return MetricValues({cell_id: tuple(values) for cell_id, values in by_cell.items()}, reasons)


def numbers(column: pd.Series) -> pd.Series[float]:
    """Return a column as floats; absent is NaN."""
    return pd.to_numeric(column).astype("float64")


def known(column: pd.Series) -> list[float]:
    """Return the numbers of a column that are present."""
    return [float(number) for number in numbers(column).dropna()]
