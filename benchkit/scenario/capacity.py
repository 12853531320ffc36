"""The scenario of `benchkit capacity`: a search for the highest rate at which each server keeps an objective."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.models.capacity import CapacityGoal
from benchkit.scenario.versus import ServerComparison, load_of, server_fields

SCENARIO_NAME = "capacity-search"
TOOL = "openloop"
"""Load tool of searches, which holds a rate and states how late it sent."""
WARM_UP_S = 0.5


def capacity_fields(
    servers: Mapping[str, str], comparison: ServerComparison, goal: CapacityGoal, *, probe_s: float, blocks: int
) -> dict[str, object]:
    """Return the fields of a scenario that searches for the capacities of these servers, `blocks` times each.

    Raises InputError for a program that this machine lacks, where servers start on it.
    """
    names = ", ".join(servers)
    return {
        "name": SCENARIO_NAME,
        "title": f"the capacity of {names}",
        "question": f"How many requests per second does each of these keep with {goal.slo.text}: {names}?",
        **server_fields(servers, comparison),
        "load": {
            "tool": comparison.tool,
            "connections": comparison.connections,
            "duration_s": probe_s,
            "warmup_s": WARM_UP_S,
            "capacity": goal.model_dump(exclude_none=True),
            **load_of(comparison.requests),
        },
        "blocks": blocks,
    }
