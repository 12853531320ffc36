"""A stored run, as figures and reports see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from benchkit.models.run import Manifest


@dataclass(frozen=True, eq=False)
class RunView:
    """One run, read from the store.

    `trials` has the contract's columns of that table and one `factor_<name>` column per factor, a row per trial that
    ended; columns that nothing filled are all null. `hosts` has the contract's columns of that table; `notes` what the
    tools' outputs say against their figures, by trial_id.
    """

    manifest: Manifest
    trials: pd.DataFrame
    hosts: pd.DataFrame
    notes: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["trial_id", "code", "message"]))

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The trials that figures and medians rest on: `kind` is `measure`; never control or profile trials."""
        measured = self.trials[self.trials["kind"] == "measure"]
        return measured.sort_values(["block", "position"], kind="stable")

    def of_cell(self, cell_id: str) -> pd.DataFrame:
        """The measured trials of a cell, in the order of their blocks."""
        return self._by_cell.get(cell_id, self.measured.iloc[:0])

    @cached_property
    def _by_cell(self) -> dict[str, pd.DataFrame]:
        return {str(cell_id): trials for cell_id, trials in self.measured.groupby("cell_id", sort=False)}


def numbers(column: pd.Series) -> pd.Series[float]:
    """A column of numbers, whatever it is stored as; absent is NaN."""
    return pd.to_numeric(column).astype("float64")


def known(column: pd.Series) -> list[float]:
    """The numbers of a column that are there."""
    return [float(number) for number in numbers(column).dropna()]
