"""The times of `benchkit versus`: windows, warm-up and slices of trials that fit its budget."""

from __future__ import annotations

import math

from benchkit.errors import InputError
from benchkit.loadtools.load_shares import pauses, turn_s
from benchkit.loadtools.registry import get_tool
from benchkit.models.design import StopCondition
from benchkit.models.load import Load
from benchkit.scenario.model import Scenario
from benchkit.units import counted

WARM_UP_SHARE = 0.25
"""Share of a trial's time that warms the server up."""
OVERHEAD_S = 0.5
"""Time of a trial without load, as in `benchkit.plan.model`."""
SHORTEST_WINDOW_S = 0.5
"""Shortest measured window: with less, a slow server answers too few requests for a p99."""
SHORTEST_WHOLE_S = 1.5
"""Shortest window planned for tools that take whole seconds: a second of warm-up, and one that is measured."""
LONGEST_WINDOW_S = 5.0
SLICE_S = float(Scenario.model_fields["slice_s"].default)
"""Windows are whole numbers of slices."""
SLICE_RESERVE = 1.5
"""Answers that slices are planned for, relative to the fewest that are valid: rates vary by tens of per cent."""
SLICE_STEP_S, LONGEST_SLICE_S = 0.05, 10.0
MIN_SLICES = 2
"""Slices of a window: with a single one, cells would not take turns within a block."""
CALIBRATION_S = 1.0
"""Measured window of a calibration."""
DEFAULT_TOOL, DEFAULT_CONNECTIONS = "h2load", 64
"""Load tool and connections that a comparison begins with where they are not given; they are adapted to its servers."""
MIXING_TOOL = "wrk"
"""Load tool for requests that differ in method or body, which h2load cannot send."""
MIN_BLOCKS = int(StopCondition.model_fields["min_blocks"].default)
PLANNED_BLOCKS = MIN_BLOCKS + 1
"""Blocks for which a comparison has time: one more than the fewest that can show a difference. Servers that start
slowly take longer than `OVERHEAD_S`: without this block, their comparison could show nothing."""


def takes_whole_seconds(tool: str) -> bool:
    """Return True for a load tool that measures whole seconds only, or a second at least.

    Raises InputError for an unknown one.
    """
    load = Load(tool=tool, connections=1, duration_s=0.5)
    return any(unsupported.field == "duration_s" for unsupported in get_tool(tool).unsupported_fields(load))


def load_times(window_s: float, warm_up_s: float, tool: str) -> dict[str, float]:
    """Return window and warm-up as fields of a load, in whole seconds where the tool takes no others."""
    if takes_whole_seconds(tool):
        window_s, warm_up_s = max(1.0, math.floor(window_s)), max(1.0, round(warm_up_s))
    return {"duration_s": window_s, "warmup_s": warm_up_s}


def window_s(
    servers: int,
    budget_s: float,
    blocks: int = PLANNED_BLOCKS,
    *,
    fewest: int = MIN_BLOCKS,
    connections: int,
    tool: str = DEFAULT_TOOL,
    slice_s: float = SLICE_S,
    spent_s: float = 0.0,
    warm_up_s: float | None = None,
) -> float:
    """Return the measured window of a trial, in seconds, with which a comparison has `blocks` blocks in its budget.

    It has fewer blocks, but not less than `fewest`, where the window would be too short, and where more than one
    calibration has been made. Windows that are long enough are whole numbers of slices. `warm_up_s` precedes each;
    None: a share of the trial does. Raises InputError where the budget is too short for the fewest blocks of the
    shortest window.
    """
    calibration_s = servers * (1.5 * CALIBRATION_S + OVERHEAD_S)
    per_window = _load_per_window(Load(tool=tool, connections=connections, duration_s=slice_s))
    beside_s = OVERHEAD_S
    if warm_up_s is None:
        per_window += WARM_UP_SHARE / (1 - WARM_UP_SHARE)
    else:
        beside_s += warm_up_s
    longest, window = (
        ((budget_s - used_s) / number / servers - beside_s) / per_window
        for number, used_s in ((fewest, calibration_s), (blocks, max(calibration_s, spent_s)))
    )
    shortest = SHORTEST_WHOLE_S if takes_whole_seconds(tool) else SHORTEST_WINDOW_S
    if longest < shortest:
        shortest_s = fewest * servers * (shortest * per_window + beside_s) + calibration_s
        why = "the fewest that can show a difference, " if fewest == MIN_BLOCKS else ""
        raise InputError(
            f"{budget_s:g} s are too short to {'compare' if servers > 1 else 'measure'} {counted(servers, 'server')}",
            where="--duration",
            why=f"{counted(fewest, 'block')}, {why}take {math.ceil(shortest_s)} s",
            hint=f"--duration {math.ceil(shortest_s)}",
        )
    step_s = slice_s if window >= MIN_SLICES * slice_s else SLICE_S
    return max(shortest, round(math.floor(min(LONGEST_WINDOW_S, window) / step_s) * step_s, 3))


def remaining_s(servers: int, budget_s: float, spent_s: float, window_s: float, warm_up_s: float) -> int:
    """Return the time for the blocks of a comparison after its calibration, in seconds: enough for the fewest."""
    block_s = servers * (window_s + warm_up_s + OVERHEAD_S)
    return math.ceil(max(budget_s - spent_s, MIN_BLOCKS * block_s))


def _load_per_window(one_slice: Load) -> float:
    """Return the ratio of the time from a window's start to its end, with pauses between slices, to the window."""
    slice_s = one_slice.duration_s or SLICE_S
    return 1.0 if takes_whole_seconds(one_slice.tool) else turn_s(pauses(one_slice), slice_s) / slice_s


def slice_for(rate: float, connections: int, min_answers: float) -> float:
    """Return the length of slices in which a server with this rate answers often enough on each connection, in seconds.

    `min_answers` is the threshold `slice_answers` of the check few-requests-in-slice.
    """
    wanted_s = SLICE_RESERVE * min_answers * connections / rate
    return max(SLICE_S, min(LONGEST_SLICE_S, round(math.ceil(wanted_s / SLICE_STEP_S) * SLICE_STEP_S, 3)))


def warm_up_s(window_s: float) -> float:
    """Return the time to warm a server up before a measured window, in seconds."""
    return round(window_s * WARM_UP_SHARE / (1 - WARM_UP_SHARE), 1)
