"""Money and energy that requests take: prices of the servers' hosts in the inventory, and their counters of energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.ratios import Ratio, value_alone
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import Frozen
from benchkit.models.metrics import ACTIVE_ENERGY, COST, ENERGY
from benchkit.stats.samples import Exclusion, is_comparable, take_samples

BASES = {COST: "currency", ENERGY: "energy_covers", ACTIVE_ENERGY: "energy_covers"}
"""Columns with the basis of a metric (currency, or the parts whose energy is counted); values on two bases are not
compared."""


class _Value(Frozen):
    """The geometric mean over the usable trials, with a 95 % interval from 3 trials on."""

    cell_id: str
    label: str
    low: float | None = None
    high: float | None = None
    trials: int

    @property
    def clause(self) -> str:
        """The value and its interval as a clause."""
        raise NotImplementedError

    @property
    def sentence(self) -> str:
        """The value of the cell, its interval, and the number of its trials."""
        return f"{self.label}: {self.clause} ({units.counted(self.trials, 'trial')})."


class CellCost(_Value):
    """The cost of a million requests of a cell."""

    currency: str
    cost: float

    @property
    def clause(self) -> str:
        """The cost and its interval as a clause."""
        interval = units.interval(self.low, self.high, units.price)
        return f"{units.price(self.cost)} {self.currency} for a million requests{interval}"


class CellEnergy(_Value):
    """The energy of a request of a cell."""

    covers: str
    joules: float
    active_joules: float | None = None
    """Energy of a request above the idle baselines of the blocks."""

    @property
    def clause(self) -> str:
        """The energy, its interval and what it covers as a clause."""
        interval = units.interval(self.low, self.high, units.joules)
        active = "" if self.active_joules is None else f", {units.joules(self.active_joules)} of it over idle"
        return f"{units.joules(self.joules)} a request{interval}{active} ({self.covers})"


def cell_costs(data: RunData) -> tuple[CellCost, ...]:
    """Return the cost of each cell whose server hosts have prices in one currency, in the order of the plan."""
    return tuple(
        CellCost(cell_id=cell_id, label=label, currency=basis, cost=found.ratio, **_of(found))
        for cell_id, label, basis, found in _values(data, COST)
        if found.ratio is not None
    )


def cell_energies(data: RunData) -> tuple[CellEnergy, ...]:
    """Return the energy of a request of each cell whose server hosts have counters, in the order of the plan."""
    active = {cell_id: found.ratio for cell_id, _, _, found in _values(data, ACTIVE_ENERGY)}
    return tuple(
        CellEnergy(
            cell_id=cell_id,
            label=label,
            covers=basis,
            joules=found.ratio,
            active_joules=active.get(cell_id),
            **_of(found),
        )
        for cell_id, label, basis, found in _values(data, ENERGY)
        if found.ratio is not None
    )


def _of(found: Ratio) -> dict[str, float | int | None]:
    return {"low": found.low, "high": found.high, "trials": found.blocks}


def _values(data: RunData, metric: str) -> Iterator[tuple[str, str, str, Ratio]]:
    """Yield id, label, basis and value of each cell whose usable trials have this metric on one basis."""
    if metric not in data.trials or data.trials[metric].isna().all():
        return
    trials = data.trials[is_comparable(data.trials) & data.trials[metric].notna()]
    samples = take_samples(trials, metric, data.exclusions)
    for view in cell_views(data.manifest):
        bases = trials.loc[trials["cell_id"] == view.cell_id, BASES[metric]].unique()
        found = value_alone(samples, view.cell_id, data.alpha)
        if len(bases) == 1 and found.blocks:
            yield view.cell_id, view.label, str(bases[0]), found


def basis_of(trials: pd.DataFrame, metric: str, cells: Sequence[str] = ()) -> str | None:
    """Return the basis of a metric in the first trial of these cells, or without them of all cells; None: no basis."""
    column = BASES.get(metric)
    if column is None or column not in trials:
        return None
    known = trials.loc[trials[metric].notna() & (trials["cell_id"].isin(list(cells)) | (not cells)), column].dropna()
    return None if known.empty else str(known.iloc[0])


def on_other_bases(trials: pd.DataFrame, metric: str, basis: str | None) -> tuple[Exclusion, ...]:
    """Return exclusions, for this metric, of the trials whose value is on another basis."""
    if basis is None:
        return ()
    other = trials[trials[metric].notna() & (trials[BASES[metric]] != basis)]
    return tuple(
        Exclusion(str(trial_id), f"in {found}, where {basis} is compared", frozenset({metric}))
        for trial_id, found in zip(other["trial_id"], other[BASES[metric]], strict=True)
    )
