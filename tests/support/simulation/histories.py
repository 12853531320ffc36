"""Simulated histories: log-ratios of runs on the recorded noise of a lab, with heavy tails and changes of machine.

A run has 20 sliced blocks of two cells on a stretch of a recording (`sliced_noise`). With it its interval reaches some
3 % to either side, the default precision of `versus`. Runs differ by Student's t of three degrees of freedom. A history
changes its machine once or twice: then it has the noise of the other recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from benchkit.run_history.change_points import Shift, find_shifts
from benchkit.stats.inference import t_statistics
from benchkit.stats.samples import Reals
from tests.support.simulation.sliced_noise import RECORDED, SliceSeries, read_series, simulate

RUNS, BLOCKS = 60, 20
STEP = 0.05
BETWEEN_RUNS = 0.005
"""Standard deviation of what differs from run to run, beside the noise of its blocks."""
EARLIEST, LATEST = 15, RUNS - 4
"""Bounds of the first run of a step, from 0: some runs come before it, and three after it."""
WITHIN_RUNS = 3
"""Runs after a step within which it must be found."""
TOLERANCE = 1
"""Runs by which the place of a found step may be wrong."""


@dataclass(frozen=True, eq=False)
class SimulatedHistory:
    """Estimates of a series of runs, and the first run of its step; None: there is none."""

    values: Reals
    errors: Reals
    dfs: Reals
    step: int | None = None
    change: float = 0.0

    def shifts(self, runs: int) -> tuple[Shift, ...]:
        """Return what is found among the first runs."""
        return find_shifts(self.values[:runs], self.errors[:runs], self.dfs[:runs])

    def is_true(self, shift: Shift) -> bool:
        """Return True for the shift that the history has."""
        return (
            self.step is not None
            and abs(shift.first - self.step) <= TOLERANCE
            and (shift.change > 0) == (self.change > 0)
        )


@cache
def _recordings() -> tuple[SliceSeries, ...]:
    return tuple(map(read_series, RECORDED))


def simulate_history(seed: int, *, runs: int = RUNS, step: float = 0.0) -> SimulatedHistory:
    """Return a history; with a `step`, its logarithm changes by as much, up or down, at a random run."""
    generator = np.random.default_rng([seed, runs])
    machines = np.cumsum(np.isin(np.arange(runs), generator.integers(5, runs - 5, size=generator.integers(1, 3))))
    values, errors = np.empty(runs), np.empty(runs)
    for machine, recording in enumerate(_recordings()):
        places = np.flatnonzero(machines % 2 == machine)
        logs = simulate(recording, generator, runs=len(places), cells=2, blocks=BLOCKS).logs
        values[places], errors[places] = t_statistics(logs[:, 1] - logs[:, 0])
    values += BETWEEN_RUNS * generator.standard_t(3, runs) / np.sqrt(3)
    dfs = np.full(runs, BLOCKS - 1.0)
    if not step:
        return SimulatedHistory(values, errors, dfs)
    first = int(generator.integers(EARLIEST, runs - (RUNS - LATEST) + 1))
    change = step * generator.choice([-1.0, 1.0])
    return SimulatedHistory(values + change * (np.arange(runs) >= first), errors, dfs, first, change)


def runs_until_found(history: SimulatedHistory, within: int = WITHIN_RUNS) -> int | None:
    """Return the runs after its step with which a history shows it; None: not within so many."""
    if history.step is None:
        raise ValueError("the history has no step")
    for after in range(1, within + 1):
        if any(history.is_true(shift) for shift in history.shifts(history.step + after)):
            return after
    return None


def count_invented(history: SimulatedHistory) -> int:
    """Return the number of shifts that are reported after any of the runs and that the history does not have.

    The same shift may move by some runs while more come: shifts less than five runs apart are one.
    """
    places = sorted(
        {
            shift.first
            for runs in range(1, len(history.values) + 1)
            for shift in history.shifts(runs)
            if not history.is_true(shift)
        }
    )
    return sum(1 for i, place in enumerate(places) if i == 0 or place - places[i - 1] >= 5)
