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
"""Limits of servers that leave CPU time unused."""
FOR_WORK = "work"
"""Word in the names of waits of threads that have nothing to do (`benchkit.store.profile_tables`)."""
MOST_CPU = 0.5
"""Share of CPU time in an answer without load, from which on it does not mainly wait."""


def waiting_clause(
    pair: ComparedCells,
    data: RunData,
    curves: Mapping[str, LoadCurve],
    components: Sequence[Component],
    names: Mapping[str, str],
) -> str | None:
    """Return why a cell that waits differs from its baseline, as a clause from `because` on; None where none waits.

    Without a queue, an answer waits for its time without load less the CPU time of a request.
    """
    sides = cell, base = pair.cell_id, pair.baseline
    waits_s = {side: wait_s for side in sides if (wait_s := _wait_s(side, data, curves.get(side))) is not None}
    waiting = [
        side
        for side, wait_s in waits_s.items()
        if curves[side].limit.kind in WAITING and wait_s > (1 - MOST_CPU) * curves[side].answer_s
    ]
    if waits_s.keys() != set(sides) or not waiting:
        return None
    own, others = (units.seconds(waits_s[side]) for side in sides)
    clauses = [f"each answer of {names[cell]} waits {own} without using the CPU, and each of {names[base]} {others}"]
    queues = [_queue(side, data, curves[side]) for side in sides]
    if queues[0] == queues[1]:
        clauses += [f"in each, {queues[0]}"] if queues[0] else []
    else:
        clauses += [f"in {names[side]}, {text}" for side, text in zip(sides, queues, strict=True) if text]
    traced = [each for each in components if each.level == "waiting" and not each.is_sum]
    if traced := [each for each in traced if FOR_WORK not in each.component]:
        most = max(traced, key=lambda each: abs(each.difference))
        time, more = units.seconds(abs(most.difference)), "more" if most.difference > 0 else "less"
        clauses.append(f"by traces, threads of {names[cell]} wait {time} {more} for {most.component}")
    return f"because {'; '.join(clauses)}"


def _wait_s(cell: str, data: RunData, curve: LoadCurve | None) -> float | None:
    """Return the time that an answer of a cell waits without load; None: unknown."""
    if curve is None:
        return None
    cpu_s = measured_value(data.trials, CPU, cell, data.exclusions, data.alpha).ratio
    return None if cpu_s is None else max(0.0, curve.answer_s - cpu_s)


def _queue(cell: str, data: RunData, curve: LoadCurve) -> str:
    """Return how many requests of a cell are served at a time in its trials, and how many wait; empty without slots."""
    connections = data.trials.loc[data.trials["cell_id"].eq(cell) & data.trials["kind"].eq("measure"), "connections"]
    slots, most = curve.limit.whole_slots or 0, int(connections.iloc[-1]) if len(connections) else 0
    return f"{slots} of {most} requests are served, and {most - slots} wait" if 0 < slots < most else ""
