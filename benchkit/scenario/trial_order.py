"""The order of a run's trials: randomised complete blocks or sequential, then passes, and turns in sliced blocks.

In a block of a pass, each cell runs twice in a row, observed and unobserved.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_args

from pydantic import Field, PositiveInt

from benchkit.loadtools.load_shares import Pauses
from benchkit.models.base import Frozen, Name
from benchkit.models.design import Design, compared_cell, controlled, is_held, is_original
from benchkit.models.load import Load
from benchkit.models.run import PassKind, TrialKind

CURVE_S = 6.0
"""Time of a load curve, for estimates: about nine points of half a second, and as much between them."""
MIN_PROFILE_S = 2.0
"""Shortest time for a profile within a window: Go's profiler takes whole seconds, and has to end before the load
does."""
MIN_TRACE_S = 5.0
"""Shortest window for a trace: starting connections and idle threads at its ends hardly show in it."""

T = TypeVar("T")


@dataclass(frozen=True)
class PlannedTrial:
    """One cell at one place of the order; block and position count from 1."""

    block: int
    position: int
    cell_id: str
    kind: TrialKind = "measure"
    """`calibrate`: a load curve or a search for the capacity, before the first block as block 0. `control`: the
    second run of a cell in the block, or the unobserved partner of a trial of a pass."""
    round: int = 1
    """Repetition of the block: a block interrupted by a pause is repeated whole, as its next round."""

    probe: int = 0
    """Number of a probe in the search for the capacity of this trial, from 1; 0: the trial itself."""

    @property
    def title(self) -> str:
        """Name of the cell as displayed, marked if the trial is profiled."""
        notes = {
            "profile": " (profiled)",
            "trace": " (traced)",
            "calibrate": " (load curve)",
            "held": " (at a held rate)",
        }
        return compared_cell(self.cell_id) + notes.get(self.kind, "")

    @property
    def is_measured(self) -> bool:
        """True for trials of the design: neither calibrations nor trials of a pass."""
        return self.kind != "calibrate" and not is_of_pass(self.kind, self.cell_id)


def planned_trials(design: Design, cell_ids: Sequence[str], blocks: int, seed: int) -> tuple[PlannedTrial, ...]:
    """Return the trials of a design in order, with the trials of control cells marked.

    In randomised complete blocks, drift over the run affects all cells alike (Montgomery, Design and Analysis of
    Experiments, ch. 4). The order of a block depends on the seed and its number alone: a longer run with the same seed
    begins like a shorter one. A sequential design has all trials of one cell, then all of the next, so that drift is
    part of its ratios. It exists to be compared with the others.
    """
    numbers = range(1, blocks + 1)
    if design == "sequential":
        places = [(block, position, cell) for position, cell in enumerate(cell_ids, start=1) for block in numbers]
    else:
        orders = {block: _shuffled(cell_ids, random.Random(f"{seed}/{block}")) for block in numbers}  # noqa: S311
        places = [
            (block, position, cell) for block, order in orders.items() for position, cell in enumerate(order, start=1)
        ]
    return tuple(PlannedTrial(block, position, cell, _kind(cell)) for block, position, cell in places)


def _kind(cell_id: str) -> TrialKind:
    return "control" if controlled(cell_id) else "held" if is_held(cell_id) else "measure"


def _shuffled(values: Sequence[T], rng: random.Random) -> list[T]:
    order = list(values)
    rng.shuffle(order)
    return order


def calibration_trials(cell_ids: Sequence[str]) -> tuple[PlannedTrial, ...]:
    """Return a calibration for each of these cells, before the first block."""
    return tuple(PlannedTrial(0, position, cell, "calibrate") for position, cell in enumerate(cell_ids, start=1))


class ObservationPass(Frozen):
    """Options of a pass: services, duration, repetitions.

    Trials of a pass are never measured ones. Observed trials are of a kind of their own, their partners in the same
    block of the kind `control`. The ratio of the two is the cost of observing.
    """

    blocks: PositiveInt = Field(default=2, description="repetitions of the observed trials")
    duration_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="measured window of its trials; absent: the load's, but long enough for the pass",
        examples=[10],
    )
    services: tuple[Name, ...] | None = Field(
        default=None, description="names of services; absent: all of each stack", examples=[["app"]]
    )

    def load(self, load: Load) -> Load:
        """Return the load of a trial of the pass."""
        return load.model_copy(update=self.window(load))

    def window(self, load: Load) -> dict[str, float | None]:
        """Return the fields of the load that the pass sets: none where the load's own window is long enough."""
        if self.duration_s is not None:
            return {"duration_s": self.duration_s, "request_count": None}
        if self.lengthens(load):
            return {"duration_s": math.ceil(self.needed_s), "request_count": None}  # some tools take whole seconds only
        return {}

    @property
    def needed_s(self) -> float:
        """Shortest window in which the services can be observed."""
        return MIN_PROFILE_S

    def lengthens(self, load: Load) -> bool:
        """Return whether a pass without `duration_s` replaces the load's window, which has no duration or is short."""
        return self.duration_s is None and (load.duration_s is None or load.duration_s < self.needed_s)

    def includes(self, service: str) -> bool:
        """Return whether the service of that name is observed."""
        return self.services is None or service in self.services


class ProfilePass(ObservationPass):
    """Options of the profile pass."""

    settle_s: float = Field(
        default=0,
        ge=0,
        description="time from the start of the window to the start of the profile, so that all connections are "
        "established",
    )
    frequency_hz: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=99, description="samples per second and CPU where perf takes them; Go's own profiler takes 100"
    )

    @property
    def needed_s(self) -> float:
        """Shortest window in which the services can be profiled."""
        return self.settle_s + MIN_PROFILE_S


class TracePass(ObservationPass):
    """Options of the trace pass: system calls, and what threads wait for, as the kernel sees them."""

    @property
    def needed_s(self) -> float:
        """Shortest window in which the services can be traced."""
        return MIN_TRACE_S


def pass_trials(
    options: ObservationPass, cell_ids: Sequence[str], after_block: int, seed: int, kind: PassKind = "profile"
) -> tuple[PlannedTrial, ...]:
    """Return the trials of the pass in order; its block numbers continue from `after_block`.

    Every cell has a pair of adjacent trials in each block, so that both are affected by the same drift. The order
    within each pair, and of the pairs, is drawn from the seed. Control cells are not observed.
    """
    observed = [cell_id for cell_id in cell_ids if is_original(cell_id)]
    kinds: tuple[TrialKind, ...] = (kind, "control")
    trials: list[PlannedTrial] = []
    for block in range(1, options.blocks + 1):
        rng = random.Random(f"{seed}/{kind}/{block}")  # noqa: S311 - an order of trials, no secret
        pairs = [(cell, each) for cell in rng.sample(observed, len(observed)) for each in _shuffled(kinds, rng)]
        trials += [PlannedTrial(after_block + block, place, *pair) for place, pair in enumerate(pairs, start=1)]
    return tuple(trials)


def is_of_pass(kind: TrialKind, cell_id: str) -> bool:
    """Return whether a trial belongs to a pass: an observed trial, or the partner of one."""
    return kind in get_args(PassKind) or (kind == "control" and controlled(cell_id) is None)


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
    """Start and end of the measured window, from the same moment."""


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
        with_slices = [cell_id for cell_id, count in counts.items() if count >= round_]
        order = _shuffled(with_slices, random.Random(f"{seed}/{block}/{round_}"))  # noqa: S311 - an order of slices
        for place, cell_id in enumerate(order, start=1):
            begins_s = start_s + pauses[cell_id].lead_s
            yield Turn(round_, place, cell_id, start_s, (begins_s, begins_s + slice_s))
            start_s = begins_s + slice_s + pauses[cell_id].margin_s


PROFILE_BLOCKS = 3
"""Pairs of a profiled trial and its partner for each server of `versus --why`: the fewest with an interval."""
PROFILE_HZ = 499
"""Samples per second and CPU of `versus --why`; an odd number does not beat with a server's timers."""
SHORTEST_PROFILE_S = 4.0
PROFILE_OVERHEAD_S = 2.0
"""Time of a trial outside its window, for the start and warm-up of its servers."""


def profile_of_servers(servers: int, budget_s: float) -> dict[str, object]:
    """Return the profile pass with which `versus --why` explains a comparison, as fields of a scenario.

    It takes about as long as the comparison: `budget_s` seconds.
    """
    window_s = math.floor(budget_s / (2 * PROFILE_BLOCKS * servers) - PROFILE_OVERHEAD_S)
    duration_s = max(SHORTEST_PROFILE_S, float(window_s))
    return {"blocks": PROFILE_BLOCKS, "duration_s": duration_s, "frequency_hz": PROFILE_HZ}
