"""The search for the capacity of a cell in a block: probes, each a whole trial with servers started afresh.

A fresh start is the recovery after a probe that overloaded the server: no backlog, queue or connection of it is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchkit import units
from benchkit.comparison.capacity_search import MAX_PROBES, MIN_PROBES, CapacitySearch, judge_probe
from benchkit.errors import InputError
from benchkit.models.capacity import CapacityEstimate, CapacityGoal, CapacityProbe, ProbeOutcome
from benchkit.models.thresholds import Thresholds
from benchkit.plan.model import PlannedCell
from benchkit.run.target_rates import with_load
from benchkit.store.trial_tables import TrialTables

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
    """Search for the highest rate at which a cell keeps the objective, with a report on each probe.

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
