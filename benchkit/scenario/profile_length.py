"""The length of profiles, from the CPU times of requests that trials of the servers show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

BLOCKS = 3
"""Pairs of a profiled trial and its partner for each server of `versus --why`: the fewest with an interval."""
FREQUENCY_HZ = 499
"""Samples per second and CPU of `versus --why`; an odd number beats with no timer of a server."""
MIN_DURATION_S = 4.0
OVERHEAD_S = 2.0
"""Time of a trial beside its window: its servers start, and are warmed up."""
PART, PRECISION, T = 0.1, 1 / 3, 2.0
"""A category with the share PART of the difference is to have an interval of ± PRECISION of itself, T standard
deviations on either side."""


class ServerCost(NamedTuple):
    """CPU seconds that a request of a server costs, and the CPU cores that it uses under the load."""

    cpu_s: float
    cores: float


class ProfileLength(NamedTuple):
    """Length of a profile pass: seconds of each window, and seconds that the wanted intervals would need."""

    duration_s: float
    needed_s: float

    @property
    def is_enough(self) -> bool:
        """True where the windows are as long as the wanted intervals need."""
        return self.duration_s >= self.needed_s

    @property
    def fields(self) -> Mapping[str, object]:
        """Fields of the scenario."""
        return {"blocks": BLOCKS, "duration_s": self.duration_s, "frequency_hz": FREQUENCY_HZ}


def profile_length(servers: Sequence[ServerCost], budget_s: float) -> ProfileLength:
    """Return how long `versus --why` profiles servers, first the baseline, in at most `budget_s` seconds."""
    baseline, *others = servers
    most_s = max(MIN_DURATION_S, math.floor(budget_s / (2 * BLOCKS * len(servers)) - OVERHEAD_S))
    needed_s = max((needed_window_s(baseline, each, BLOCKS, FREQUENCY_HZ) for each in others), default=MIN_DURATION_S)
    return ProfileLength(max(MIN_DURATION_S, math.ceil(min(needed_s, most_s))), needed_s)


def needed_window_s(baseline: ServerCost, server: ServerCost, blocks: int, frequency_hz: int) -> float:
    """Return the seconds of each window of a pair; infinite for servers without difference.

    The number of samples in a category is Poisson distributed. With n samples of a request of c seconds, a category of
    x seconds has the variance x c / n. In both servers x is taken as a tenth of c. The difference that must show is a
    tenth of the servers' difference.
    """
    reach = PART * PRECISION * abs(server.cpu_s - baseline.cpu_s)
    if not reach:
        return math.inf
    variance_of_second = sum(PART * each.cpu_s**2 / (frequency_hz * each.cores) for each in (baseline, server))
    return T**2 * variance_of_second / reach**2 / blocks
