"""The cost of a million requests on each cell's servers, from the prices of their hosts in the inventory."""

from __future__ import annotations

from benchkit import units
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.ratios import value_alone
from benchkit.comparison.run_data import RunData
from benchkit.models.base import Frozen
from benchkit.models.metrics import COST
from benchkit.stats.samples import is_comparable, take_samples


class CellCost(Frozen):
    """The cost of a million requests, the geometric mean over the usable trials, with a 95 % interval from 3 on."""

    cell_id: str
    label: str
    currency: str
    cost: float
    low: float | None = None
    high: float | None = None
    trials: int

    @property
    def clause(self) -> str:
        """The cost and its interval as a clause."""
        interval = (
            "" if self.low is None or self.high is None else f", {units.price(self.low)} to {units.price(self.high)}"
        )
        return f"{units.price(self.cost)} {self.currency} for a million requests{interval}"

    @property
    def sentence(self) -> str:
        """The cost of the cell, its interval, and the number of its trials."""
        return f"{self.label}: {self.clause} ({units.counted(self.trials, 'trial')})."


def cell_costs(data: RunData) -> tuple[CellCost, ...]:
    """Return the cost of each cell whose server hosts have prices in one currency, in the order of the plan."""
    if COST not in data.trials or data.trials[COST].isna().all():
        return ()
    trials = data.trials[is_comparable(data.trials) & data.trials[COST].notna()]
    samples = take_samples(trials, COST, data.exclusions)
    costs = []
    for view in cell_views(data.manifest):
        currencies = trials.loc[trials["cell_id"] == view.cell_id, "currency"].unique()
        known = value_alone(samples, view.cell_id, data.alpha)
        if len(currencies) != 1 or known.ratio is None or not known.blocks:
            continue
        costs.append(
            CellCost(
                cell_id=view.cell_id,
                label=view.label,
                currency=str(currencies[0]),
                cost=known.ratio,
                low=known.low,
                high=known.high,
                trials=known.blocks,
            )
        )
    return tuple(costs)
