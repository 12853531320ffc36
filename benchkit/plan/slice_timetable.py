"""The timetable of a sliced block: which cell has which slice, and when. Pure.

A turn begins with the lead, in which load tools start and open their connections; a cell with more of them has a longer
one. Then the slice is measured. A margin lets the tools end before the next ones start. A tool needs some milliseconds
from its start to its first connection. So its own measured time begins and ends that much later than the window of the
slice, in which hosts are sampled. Both are equally long and under the same load.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchkit.loadtools.load_shares import Pauses


@dataclass(frozen=True)
class Turn:
    """One slice of one cell in the timetable of a block."""

    round: int
    """From 1; also the number of the slice within its cell."""
    place: int
    """Place in the round, from 1."""
    cell_id: str
    start_s: float
    """Start of the load tools, in seconds from their start in the first turn."""
    window_s: tuple[float, float]
    """Start and end of the measured window, counted alike."""


def slice_count(duration_s: float, slice_s: float) -> int:
    """Return the number of slices of a cell that measures for `duration_s` in a block."""
    return max(1, round(duration_s / slice_s))


def plan_turns(
    counts: Mapping[str, int], pauses: Mapping[str, Pauses], slice_s: float, seed: int, block: int
) -> Iterator[Turn]:
    """Yield the turns of a block: in every round one slice of each cell that has any left, in random order.

    `counts` is the number of slices of each cell, and `pauses` the lead and margin of each. The order of a round
    depends on seed, block and round alone.
    """
    start_s = 0.0
    for round_ in range(1, max(counts.values()) + 1):
        order = [cell_id for cell_id, count in counts.items() if count >= round_]
        random.Random(f"{seed}/{block}/{round_}").shuffle(order)  # noqa: S311 - an order of slices, no secret
        for place, cell_id in enumerate(order, start=1):
            begins_s = start_s + pauses[cell_id].lead_s
            yield Turn(round_, place, cell_id, start_s, (begins_s, begins_s + slice_s))
            start_s = begins_s + slice_s + pauses[cell_id].margin_s
