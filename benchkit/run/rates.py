"""Target rates that a run finds itself: shares of the slowest cell at full speed, and capacities found by probes.

Each probe is a whole trial with servers started afresh. That is the recovery after a probe that overloaded the server:
no backlog, queue or connection of it is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from benchkit import units
from benchkit.comparison.capacity_search import MAX_PROBES, MIN_PROBES, CapacitySearch, judge_probe
from benchkit.errors import InputError
from benchkit.loadtools.load_shares import divide_load
from benchkit.models.capacity import CapacityEstimate, CapacityGoal, CapacityProbe, ProbeOutcome
from benchkit.models.load import Load
from benchkit.models.rows import TrialRow
from benchkit.models.thresholds import Thresholds
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.trial_tables import TrialTables

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


logger = logging.getLogger(__name__)

NEAR = 1.1
"""Probes up to this multiple of the highest likely capacity, or of the lowest failed rate if that is higher, show
whether the server or the load tool fails there."""

BACK_OFF = 0.8
"""Factor of the rate after a probe that cannot be used: a lower rate may hold in spite of a disturbance. After the nth
such probe in a row it applies n more times, so that the rate falls to 0.8, 0.51, 0.26, 0.11."""

OUTCOMES: Mapping[ProbeOutcome, str] = MappingProxyType(
    {"held": "held", "missed": "failed", "generator": "was limited by the load tool", "unusable": "cannot be used"}
)

Report = Callable[[str], None]
"""Receiver of a line on each probe."""

RunProbe = Callable[[int, PlannedCell], TrialTables]
"""Function that runs a trial of a cell as the probe of this number, and returns its rows."""


def find_capacity(
    cell: PlannedCell,
    goal: CapacityGoal,
    thresholds: Thresholds,
    run_probe: RunProbe,
    *,
    report: Report,
    clock: Callable[[], float] = time.monotonic,
) -> CapacityEstimate:
    """Search for the highest rate at which a cell keeps the objective, and report each probe.

    The first probe runs at full speed; no capacity is far above its rate. The search ends when its interval is narrow
    enough or its time is over. It ends too when more probes would tell little. Without a usable probe it goes on to the
    sixth, at a thirtieth of the rate. Raises HostError where a probe fails, InputError where the cell answers nothing
    at full speed.
    """
    started_s = clock()
    full_speed = run_probe(1, with_load(cell, cell.load.model_copy(update={"capacity": None}))).trial
    if not full_speed.rps:
        raise InputError("no capacity: the cell answers nothing at full speed", where=cell.cell_id)
    search = CapacitySearch(full_speed.rps, goal.precision)
    report(f"{cell.cell_id}: {units.requests_per_s(full_speed.rps)} at full speed")
    probes: list[CapacityProbe] = []
    unusable = 0
    while not (reason := _end(search, len(probes), clock() - started_s, goal)):
        rate = _whole(search.next_rate() * BACK_OFF ** (unusable * (unusable + 1) // 2), cell)
        load = cell.load.model_copy(update={"rate": rate, "capacity": None})
        tables = run_probe(len(probes) + 2, with_load(cell, load))
        outcome, why = judge_probe(tables.trial, tables.verdicts, goal.slo, thresholds)
        logger.info("probe %s: %s: %s, %s", tables.trial.trial_id, units.requests_per_s(rate), outcome, why)
        title = f"{cell.cell_id}: probe {len(probes) + 1} at {units.requests_per_s(rate)}"
        probes.append(CapacityProbe(trial_id=tables.trial.trial_id, rate=rate, outcome=outcome, why=why))
        unusable = unusable + 1 if outcome == "unusable" else 0
        if not unusable:
            search.add(rate, is_held=outcome == "held")
        interval = search.interval
        likely = f"{units.rate(interval.low)} to {units.rate(interval.high)}"
        report(f"{title} {OUTCOMES[outcome]}, {why}; the capacity is {likely}")
    interval = search.interval
    is_bounded = _is_bounded(probes, interval.high)
    held = max((probe.rate for probe in probes if probe.outcome == "held"), default=None)
    return CapacityEstimate(
        rps=_whole(interval.rps if is_bounded or held is None else held, cell),
        low=interval.low if is_bounded else held,
        high=interval.high if is_bounded else None,
        reason=reason,
        ceiling_rps=full_speed.rps,
        violations=search.violations,
        probes=tuple(probes),
    )


def _whole(rate: float, cell: PlannedCell) -> float:
    return float(max(round(rate), len(cell.generators)))


def _end(search: CapacitySearch, probes: int, elapsed_s: float, goal: CapacityGoal) -> str:
    if search.is_precise:
        return f"its interval reaches {units.share(search.interval.precision)} to either side"
    if elapsed_s >= goal.budget_s and (search.probes or probes >= MIN_PROBES):
        unusable = "" if search.probes else f", and none of its {probes} probes can be used"
        return f"its time of {units.duration(goal.budget_s)} is over{unusable}"
    return f"it made {probes} probes" if probes >= MAX_PROBES else ""


def _is_bounded(probes: list[CapacityProbe], high: float) -> bool:
    """Return True if the server bounds the capacity: it caused most of the failures at the lowest failed rates."""
    failed = [probe for probe in probes if probe.outcome in {"missed", "generator"}]
    if not failed:
        return False
    reach = NEAR * max(high, min(probe.rate for probe in failed))
    near = [probe.outcome == "missed" for probe in failed if probe.rate <= reach]
    return 2 * sum(near) >= len(near)
