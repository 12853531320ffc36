"""Target rates that a run finds itself: shares of the slowest cell at full speed, and of capacities. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchkit import units
from benchkit.errors import InputError
from benchkit.loadtools.load_shares import divide_load
from benchkit.models.load import Load
from benchkit.models.rows import TrialRow
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.trial_order import PlannedTrial

CALIBRATION_S = 2.0
"""Window of a trial at full speed. Its rate varies by some per cent, which does not matter for a share that leaves
room. Whole seconds suit every load tool.
"""


def with_load(cell: PlannedCell, load: Load) -> PlannedCell:
    """Return a cell with another load, divided among its generators. Raises ValueError where it cannot be divided."""
    shares = divide_load(load, len(cell.generators))
    generators = tuple(each.with_load(share) for each, share in zip(cell.generators, shares, strict=True))
    return replace(cell, load=load, generators=generators)


class TargetRates:
    """The rates of cells at full speed and their capacities, and the target rates that follow from them."""

    def __init__(self, rows: Iterable[TrialRow] = ()) -> None:
        self._rps: dict[str, float] = {}
        self._capacities: dict[str, TrialRow] = {}
        for row in rows:
            self.add(row)

    def add(self, row: TrialRow) -> None:
        """Add a trial that has ended; only calibrations matter."""
        if row.kind != "calibrate":
            return
        if row.capacity_rps is not None:
            self._capacities[row.cell_id] = row
        elif row.rps:
            self._rps[row.cell_id] = row.rps

    def cell_of(self, trial: PlannedTrial, plan: RunPlan) -> tuple[PlannedCell, str | None]:
        """Return the cell of a trial with its target rate, and a note about a rate that the run found.

        Raises InputError where no cell has answered at full speed, the capacity is unknown, or the rate is too low to
        be divided.
        """
        cell = plan.cell_of(trial)
        if cell.load.share_of_capacity is not None:
            return self._at_capacity(cell, cell.load.share_of_capacity, trial, plan)
        share = cell.load.share_of_slowest
        if share is None:
            return cell, None
        if trial.kind == "calibrate":
            window = {"duration_s": CALIBRATION_S, "request_count": None, "shape": None}
            return with_load(cell, cell.load.model_copy(update=window)), None
        if not self._rps:
            raise InputError(
                "no target rate: no cell has answered at full speed",
                where=trial.cell_id,
                hint="the trials of block 0 say why; state a rate to run without them",
            )
        slowest, rps = min(self._rps.items(), key=lambda each: each[1])
        rate = float(max(1, int(share * rps)))
        note = (
            f"Target rate: {units.requests_per_s(rate)}, {units.share(share)} of the {units.requests_per_s(rps)} of the "
            f"slowest cell at full speed, {slowest}."
        )
        return _with_rate(cell, rate), note

    def _at_capacity(
        self, cell: PlannedCell, share: float, trial: PlannedTrial, plan: RunPlan
    ) -> tuple[PlannedCell, str | None]:
        if trial.kind == "calibrate":
            return with_load(cell, cell.calibrated.load), None
        searched = plan.capacity_cells[cell.cell_id]
        found = self._capacities.get(searched)
        if found is None or found.capacity_rps is None:
            raise InputError(
                "no target rate: the capacity is unknown",
                where=trial.cell_id,
                hint=f"the trial of {searched} in block 0 says why; state a rate to run without it",
            )
        bound = "" if found.capacity_high is not None else "at least "
        high = "unknown" if found.capacity_high is None else units.rate(found.capacity_high)
        note = (
            f"Capacity of {searched}: {bound}{units.requests_per_s(found.capacity_rps)} "
            f"[{units.rate(found.capacity_low)}, {high}]; target rates are shares of it."
        )
        return _with_rate(cell, float(max(1, round(share * found.capacity_rps)))), note


def _with_rate(cell: PlannedCell, rate: float) -> PlannedCell:
    try:
        return with_load(cell, cell.load.model_copy(update={"rate": rate}))
    except ValueError as error:
        raise InputError("the target rate is too low", where=cell.cell_id, why=str(error)) from None
