"""Reasons why servers that wait differ: time and CPU time of an answer without load, slots, and traced waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchkit import units
from benchkit.comparison.components import Component
from benchkit.comparison.ratios import measured_value
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.load_curve import LimitKind, LoadCurve
from benchkit.models.metrics import CPU
from benchkit.stats.cell_pairs import ComparedCells

WAITING: frozenset[LimitKind] = frozenset({"slots", "rate", "not reached"})
"""Limits of servers whose CPU is free."""
MOST_CPU = 0.5
"""Share of CPU time in an answer without load, above which it does not mainly wait."""


def waiting_clause(
    pair: ComparedCells,
    data: RunData,
    curves: Mapping[str, LoadCurve],
    components: Sequence[Component],
    names: Mapping[str, str],
) -> str | None:
    """Return why a cell that waits differs from its baseline, as a clause from `because` on; None where none waits.

    The time of an answer without load less the CPU time of a request is what it waits, without a queue.
    """
    sides = cell, base = pair.cell_id, pair.baseline
    waits = {side: wait for side in sides if (wait := _waits_s(side, data, curves.get(side))) is not None}
    if waits.keys() != set(sides) or not any(_mainly_waits(waits[side], curves[side]) for side in sides):
        return None
    own, others = (units.seconds(waits[side]) for side in sides)
    clauses = [f"each answer of {names[cell]} waits {own} without using the CPU, of {names[base]} {others}"]
    in_use = [_slots_in_use(side, data, curves[side]) for side in sides]
    if in_use[0] == in_use[1]:
        clauses += [f"in each, {in_use[0]}"] if in_use[0] else []
    else:
        clauses += [f"in {names[side]}, {text}" for side, text in zip(sides, in_use, strict=True) if text]
    clauses += _traced(components)
    return f"because {'; '.join(clauses)}"


def _waits_s(cell: str, data: RunData, curve: LoadCurve | None) -> float | None:
    if curve is None:
        return None
    cpu_s = measured_value(data.trials, CPU, cell, data.exclusions, data.alpha).ratio
    return None if cpu_s is None or curve.answer_s is None else max(0.0, curve.answer_s - cpu_s)


def _mainly_waits(wait_s: float, curve: LoadCurve) -> bool:
    return curve.limit.kind in WAITING and wait_s > (1 - MOST_CPU) * (curve.answer_s or 0.0)


def _slots_in_use(cell: str, data: RunData, curve: LoadCurve) -> str:
    """Return how many slots of a cell are in use in its trials, and how many requests wait; empty without slots."""
    connections = data.trials.loc[data.trials["cell_id"].eq(cell) & data.trials["kind"].eq("measure"), "connections"]
    slots, most = round(curve.limit.slots or 0), int(connections.iloc[-1]) if len(connections) else 0
    if not 0 < slots < most:
        return ""
    return f"{slots} of {slots} slots are in use, and {most - slots} of {most} requests wait"


def _traced(components: Sequence[Component]) -> list[str]:
    """Return what threads wait for most, by the traces of a pair, per request; none without traces."""
    parts = [each for each in components if each.level == "waiting" and not each.is_sum and each.difference is not None]
    if not parts:
        return []
    most = max(parts, key=lambda each: abs(each.difference or 0.0))
    return [f"threads wait {units.seconds(abs(most.difference or 0.0))} more or less for {most.component}, by traces"]
