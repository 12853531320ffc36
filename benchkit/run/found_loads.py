"""Loads that a run determines itself, from load curves and from searches for a capacity.

Each probe of a search is a separate trial with new server processes. No backlog, queue or connection of an overloaded
server remains for the next probe.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from benchkit import units
from benchkit.comparison.capacity_search import MAX_PROBES, MIN_PROBES, CapacitySearch, judge_probe
from benchkit.errors import InputError
from benchkit.judge.load_curve import MOST_CONNECTIONS, load_curve, most_connections, saturation
from benchkit.loadtools.load_shares import divide_load
from benchkit.loadtools.registry import get_tool
from benchkit.models.capacity import CapacityEstimate, CapacityGoal, CapacityProbe, ProbeOutcome
from benchkit.models.design import compared_cell, controlled
from benchkit.models.load import Load
from benchkit.models.metrics import PERCENTILES
from benchkit.models.rows import LoadCurveRow, TrialRow
from benchkit.models.thresholds import Thresholds
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.trial_tables import TrialTables

ABOVE_KNEE = 2
"""Connections of a trial relative to its knee: the server reaches its full rate, with at most twice the requests in
flight."""
SATURATED = 1.1
"""Fewest connections that cells share, relative to the saturation point of each, which is known to some 10 %. With as
many connections as slots, a slot idles while the load tool sends a request."""
RESPONSES_IN_SLICE = 20
"""Responses on each connection in a slice. At an edge of a slice one request for each connection is in flight, a
twentieth of them. Both edges are alike, so that the error of the rate is below 2 %."""
RESERVE = 1.5
"""Factor on `RESPONSES_IN_SLICE` when slices are planned, because rates vary by tens of percent."""
SLICE_STEP_S = 0.05
MIN_SLICES, LONG_SLICE_S = 2, 0.5
"""Fewest slices of a window, so that cells take turns within a block; one if a slice is longer than `LONG_SLICE_S`."""
LONGEST_SLICE_S = 2.0
"""Slice length above which a cell gets only the connections at its knee. Seven blocks of two such cells fit into a
minute. Slices are this long where responses wait without CPU use, such as for a delayed acknowledgement of 40 ms. For
given connections they are no longer."""
LOWERED = (1.0, 0.6, 0.4)
"""Factors of a held rate in `versus`: the next one where the load tool did not hold it in block 1, and in block 2."""
NOT_HELD = frozenset({"rate-held", "generator-saturated", "tool-limit"})
"""Checks that find a rate which the load tool did not hold, or held at its own limit."""


def with_load(cell: PlannedCell, load: Load) -> PlannedCell:
    """Return a cell with another load, divided among its generators. Raises ValueError where it cannot be divided."""
    shares = divide_load(load, len(cell.generators))
    generators = tuple(each.with_load(share) for each, share in zip(cell.generators, shares, strict=True))
    return replace(cell, load=load, generators=generators)


class _Knee(NamedTuple):
    """The knee of a load curve, and what a server carries and serves."""

    connections: int
    rps: float
    least: int
    """Fewest connections that bring the server to its limit, or `most`."""
    most: int
    below: Mapping[int, float]
    """Rates with fewer connections than at the knee."""

    def rate(self, connections: int) -> float:
        """Return the rate with so many connections, interpolated between points; above the knee that at the knee."""
        return float(np.interp(connections, [*self.below, self.connections], [*self.below.values(), self.rps]))


class FoundLoads:
    """Load curves and capacities of cells, and the loads that follow from them."""

    def __init__(self, rows: Iterable[TrialRow] = (), points: Iterable[LoadCurveRow] = ()) -> None:
        self._curves: dict[str, _Knee] = {}
        self._capacities: dict[str, TrialRow] = {}
        self._lowered = 0
        self.lowers_held_rates = False
        """True to lower held rates by `LOWERED`."""
        curves = tuple(points)
        for row in rows:
            self.add(row, [point for point in curves if point.trial_id == row.trial_id])

    def add(self, row: TrialRow, points: Sequence[LoadCurveRow] = (), checks: Collection[str] = ()) -> None:
        """Add a trial that has ended, with the checks that decide its verdict.

        Only calibrations matter, and the first trials at held rates. That of a load curve has the load at its knee.
        """
        is_not_held = row.kind == "held" and row.verdict == "invalid" and not NOT_HELD.isdisjoint(checks)
        if self.lowers_held_rates and is_not_held and row.block == self._lowered + 1 < len(LOWERED):
            self._lowered += 1
        if row.kind != "calibrate":
            return
        if row.capacity_rps is not None:
            self._capacities[row.cell_id] = row
        elif row.rps and row.connections:
            refused = (row.non_2xx or 0) / row.requests if row.requests else 0.0
            most = most_connections(points) if points else MOST_CONNECTIONS
            knee = min(row.connections, most)
            saturated = math.ceil(SATURATED * saturation(points)) if points else knee
            below = {point.connections: point.rps for point in points if point.rps and point.connections < knee}
            self._curves[row.cell_id] = _Knee(
                knee, row.rps * (1 - refused), min(most, max(knee, saturated)), most, below
            )

    def cell_of(self, trial: PlannedTrial, plan: RunPlan) -> tuple[PlannedCell, tuple[str, ...]]:
        """Return the cell of a trial with its connections and target rate, and notes that explain these.

        Raises InputError where the curve or the capacity is unknown, or the rate is too low to be divided.
        """
        cell = plan.cell_of(trial)
        if cell.load.share_of_capacity is not None:
            return self._at_capacity(cell, cell.load.share_of_capacity, trial, plan)
        if trial.kind == "calibrate":
            return cell, ()
        notes = []
        compared = controlled(cell.cell_id) or compared_cell(cell.cell_id)
        if cell.load.at_knee:
            cell = _with_load_fields(cell, connections=self._connections(compared))
            notes.append(self._note_on_connections())
        if cell.load.at_knee or plan.slice_of(trial) is not None:
            cell, longer = self._with_longer_window(cell, plan)
            notes += longer if not cell.load.at_knee else ()
        if compared in self._curves and cell.load.rate is None and cell.load.share_of_slowest is None:
            in_flight_s = cell.load.in_flight / self._curves[compared].rate(cell.load.connections)
            cell = replace(cell, drain_s=min(in_flight_s, LONGEST_SLICE_S))
        if cell.load.share_of_slowest is not None:
            share = cell.load.share_of_slowest * LOWERED[self._lowered]
            slowest, carried = self._slowest(cell, plan)
            rate = float(max(1, int(share * carried)))
            lowered = "; the load tool did not hold more" if self._lowered else ""
            notes.append(
                f"Target rate: {units.requests_per_s(rate)}, {units.share(share)} of the "
                f"{units.requests_per_s(carried)} of the slowest cell, {slowest}{lowered}."
            )
            cell = _with_load_fields(cell, rate=rate)
        return cell, tuple(notes)

    def slice_s(self, trial: PlannedTrial, plan: RunPlan) -> float | None:
        """Return the length of the slices of a block, long enough for its slowest cell; None without slices."""
        slice_s = plan.slice_of(trial)
        return None if slice_s is None else max(slice_s, self._least_slice_s(plan))

    def _least_slice_s(self, plan: RunPlan) -> float:
        """Return the time in which each connection of every closed loop gets its responses; 0 without load curves.

        Load tools that take whole seconds get these. Connections that are given may be too many for `LONGEST_SLICE_S`,
        which a check finds.
        """
        least_s, step_s = 0.0, SLICE_STEP_S
        for name, cell in self._cells(plan).items():
            if cell.load.share_of_slowest is None:
                responses_s = self._responses_s(name, self._connections_of(cell))
                least_s = max(least_s, responses_s if cell.load.at_knee else min(responses_s, LONGEST_SLICE_S))
                step_s = max(step_s, get_tool(cell.load.tool).limits.duration_step_s or 0.0)
        return round(math.ceil(round(least_s / step_s, 6)) * step_s, 3)

    def _cells(self, plan: RunPlan) -> Mapping[str, PlannedCell]:
        """Return the cells that have a load curve."""
        return {cell.cell_id: cell for cell in plan.cells if cell.cell_id in self._curves}

    def _connections_of(self, cell: PlannedCell) -> int:
        return self._connections(cell.cell_id) if cell.load.at_knee else cell.load.connections

    def _responses_s(self, cell_id: str, connections: int) -> float:
        """Return the time in which each connection of a cell gets `RESPONSES_IN_SLICE` responses, in steps of 50 ms."""
        wanted_s = RESERVE * RESPONSES_IN_SLICE * connections / self._curves[cell_id].rate(connections)
        return round(math.ceil(wanted_s / SLICE_STEP_S) * SLICE_STEP_S, 3)

    def _with_longer_window(self, cell: PlannedCell, plan: RunPlan) -> tuple[PlannedCell, Sequence[str]]:
        """Return a cell whose window has the slices of its block, with a note on those that are longer than planned."""
        least_s = self._least_slice_s(plan)
        slices = MIN_SLICES if plan.slice_s is not None and least_s <= LONG_SLICE_S else 1
        needed_s = round(slices * least_s, 3)
        if cell.load.duration_s is not None and cell.load.duration_s < needed_s:
            cell = _with_load_fields(cell, duration_s=needed_s)
        is_longer = plan.slice_s is not None and least_s > plan.slice_s
        why = f"because each connection needs {RESPONSES_IN_SLICE} answers"
        return cell, [f"Slices take {units.seconds(least_s)}, {why}."] if is_longer else ()

    def _connections(self, cell_id: str) -> int:
        """Return the connections of a cell: the same for all cells if twice the lowest knee brings all to their limits.

        They are no more than the servers serve, and those at the knee where slices would be too long. Raises
        InputError for an unknown curve.
        """
        if cell_id not in self._curves:
            raise InputError("the load curve is unknown", where=cell_id, hint="see its trial in block 0")
        most = {name: min(each.most, ABOVE_KNEE * each.connections) for name, each in self._curves.items()}
        common = min(most.values())
        if common >= max(each.least for each in self._curves.values()) and all(
            self._responses_s(name, common) <= LONGEST_SLICE_S for name in self._curves
        ):
            return common
        if self._responses_s(cell_id, most[cell_id]) <= LONGEST_SLICE_S:
            return most[cell_id]
        return self._curves[cell_id].connections

    def _note_on_connections(self) -> str:
        numbers = {name: self._connections(name) for name in self._curves}
        if len(set(numbers.values())) == 1:
            return f"Each cell has {units.counted(next(iter(numbers.values())), 'connection')}, by the load curves."
        listed = ", ".join(f"{name} {number}" for name, number in numbers.items())
        return f"Connections by the load curves, at most twice those at each server's knee: {listed}."

    def _slowest(self, cell: PlannedCell, plan: RunPlan) -> tuple[str, float]:
        """Return the cell that carries the least with its connections, and its rate.

        Raises InputError where no cell has a load curve.
        """
        cells = self._cells(plan)
        if not cells:
            raise InputError(
                "no target rate: no cell has answered at full speed",
                where=cell.cell_id,
                hint="see the trials of block 0, or state a rate to run without them",
            )
        carried = {name: self._curves[name].rate(self._connections_of(each)) for name, each in cells.items()}
        slowest = min(carried, key=carried.__getitem__)
        return slowest, carried[slowest]

    def _at_capacity(
        self, cell: PlannedCell, share: float, trial: PlannedTrial, plan: RunPlan
    ) -> tuple[PlannedCell, tuple[str, ...]]:
        if trial.kind == "calibrate":
            return with_load(cell, cell.calibrated.load), ()
        searched = plan.capacity_cells[cell.cell_id]
        found = self._capacities.get(searched)
        if found is None or found.capacity_rps is None:
            raise InputError(
                "no target rate: the capacity is unknown",
                where=trial.cell_id,
                hint=f"see the trial of {searched} in block 0, or state a rate to run without it",
            )
        bound = "" if found.capacity_high is not None else "at least "
        high = "unknown" if found.capacity_high is None else units.rate(found.capacity_high)
        note = (
            f"Capacity of {searched}: {bound}{units.requests_per_s(found.capacity_rps)} "
            f"[{units.rate(found.capacity_low)}, {high}]; target rates are shares of it."
        )
        return _with_load_fields(cell, rate=float(max(1, round(share * found.capacity_rps)))), (note,)


def _with_load_fields(cell: PlannedCell, **load: float | None) -> PlannedCell:
    """Return a cell with changed fields of its load. Raises InputError where the load cannot be divided."""
    try:
        return with_load(cell, cell.load.model_copy(update=load))
    except ValueError as error:
        raise InputError("this load cannot be divided", where=cell.cell_id, why=str(error)) from None


logger = logging.getLogger(__name__)

NEAR = 1.1
"""Multiple of the highest likely capacity, or of the lowest failed rate if that is higher. Failed probes up to it show
if the server or the load tool is the limit."""

BACK_OFF = 0.8
"""Factor on the rate after an unusable probe: a lower rate may hold in spite of a disturbance. After the nth such probe
in a row it is applied n more times: the rate falls to 0.8, 0.51, 0.26, 0.11."""

OUTCOMES: Mapping[ProbeOutcome, str] = MappingProxyType(
    {"held": "held", "missed": "failed", "generator": "was limited by the load tool", "unusable": "cannot be used"}
)

LONGEST_PROBE = 0.2
"""Longest window of a probe, as a share of the time of its search."""

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

    The first probe measures the load curve; no capacity is far above the rate that it shows. The search ends when its
    interval is narrow enough, its time is over, or it has made `MAX_PROBES` probes. Without any usable probe it makes
    `MIN_PROBES` at least. Raises HostError where a probe fails, InputError where the cell answers no request.
    """
    started_s = clock()
    points = run_probe(1, with_load(cell, cell.load.model_copy(update={"capacity": None}))).load_curve
    if not any(point.rps for point in points):
        raise InputError("no capacity: the cell answers no request", where=cell.cell_id)
    curve = load_curve(points, thresholds)
    search = CapacitySearch(curve.rps, goal.precision)
    knee = units.counted(curve.knee, "connection")
    report(f"{cell.cell_id}: carries {units.requests_per_s(curve.rps)} by its load curve, whose knee is at {knee}")
    probes: list[CapacityProbe] = []
    unusable = 0
    while not (reason := _reason_to_end(search, len(probes), clock() - started_s, goal)):
        rate = _whole_rate(search.next_rate() * BACK_OFF ** (unusable * (unusable + 1) // 2), cell)
        window = {"duration_s": _probe_window_s(cell, rate, goal)}
        load = cell.load.model_copy(update={"rate": rate, "capacity": None, **window})
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
        rps=_whole_rate(interval.rps if is_bounded or held is None else held, cell),
        low=interval.low if is_bounded else held,
        high=interval.high if is_bounded else None,
        reason=reason,
        ceiling_rps=curve.rps,
        violations=search.violations,
        probes=tuple(probes),
    )


def _probe_window_s(cell: PlannedCell, rate: float, goal: CapacityGoal) -> float:
    """Return the window of a probe: long enough for each percentile of the objective, which 1 / (1 - p) requests have.

    It is no longer than `LONGEST_PROBE` of the time of the search.
    """
    percents = [PERCENTILES[column].percent for column in goal.slo.latencies if column in PERCENTILES]
    needed = RESERVE * max((100 / (100 - percent) for percent in percents), default=0.0)
    enough_s = float(min(math.ceil(needed / rate), round(LONGEST_PROBE * goal.budget_s)))
    return max(cell.load.duration_s or 0.0, enough_s)


def _whole_rate(rate: float, cell: PlannedCell) -> float:
    return float(max(round(rate), len(cell.generators)))


def _reason_to_end(search: CapacitySearch, probes: int, elapsed_s: float, goal: CapacityGoal) -> str:
    """Return why a search ends; empty where it continues."""
    if search.is_precise:
        return f"its interval reaches {units.share(search.interval.precision)} to either side"
    if elapsed_s >= goal.budget_s and (search.probes or probes >= MIN_PROBES):
        unusable = "" if search.probes else f", and none of its {probes} probes can be used"
        return f"its time of {units.duration(goal.budget_s)} is over{unusable}"
    return f"it made {probes} probes" if probes >= MAX_PROBES else ""


def _is_bounded(probes: list[CapacityProbe], high: float) -> bool:
    """Return True if the server limits the capacity: it caused most of the failures at the lowest failed rates."""
    failed = [probe for probe in probes if probe.outcome in {"missed", "generator"}]
    if not failed:
        return False
    reach = NEAR * max(high, min(probe.rate for probe in failed))
    near = [probe.outcome == "missed" for probe in failed if probe.rate <= reach]
    return 2 * sum(near) >= len(near)
