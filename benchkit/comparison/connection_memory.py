"""Memory of a server per connection: the slope of its resident memory over the number of connections.

Memory divided by connections would count the server's own memory as that of its connections; the slope does not. A
server with a goroutine per connection has its stack in the slope, an event loop has not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchkit import units
from benchkit.comparison.run_data import RunData
from benchkit.comparison.trend import cells_along
from benchkit.models.base import Frozen
from benchkit.stats.inference import MIN_BLOCKS, t_quantile, t_statistics
from benchkit.stats.samples import Reals, Samples, take_samples

METRIC = "server_memory_bytes"
FACTOR = "connections"


class ConnectionMemory(Frozen):
    """Bytes per connection in the cells that differ in connections alone, with the interval over blocks.

    The other factors are at `levels`. With too few blocks there is a `reason` instead.
    """

    levels: Mapping[str, str]
    blocks: int
    bytes_per_connection: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """The slope with its interval: `17.9 KiB [17.1 KiB, 18.8 KiB]`."""
        if self.bytes_per_connection is None:
            return f"unknown: {self.reason}"
        return f"{units.size(self.bytes_per_connection)} [{units.size(self.low)}, {units.size(self.high)}]"


def connection_memory_of(data: RunData) -> tuple[ConnectionMemory, ...]:
    """Return the memory per connection for every combination of the factors beside connections.

    Each block has a least-squares line of its own, and is the sample: Student's t over their slopes, at the level of
    the run. Raises InputError where connections have less than two positive levels.
    """
    samples = take_samples(data.trials, METRIC, data.exclusions)
    return tuple(_slope(samples, dict(others), cells, data.alpha) for others, cells in cells_along(data, FACTOR))


def _slope(
    samples: Samples, others: Mapping[str, str], cells: Sequence[tuple[float, str]], alpha: float
) -> ConnectionMemory:
    memory: Reals = np.exp(np.array([samples.of(cell_id) for _, cell_id in cells])).T
    complete: Reals = memory[~np.isnan(memory).any(axis=1)]
    found = ConnectionMemory(levels=others, blocks=len(complete))
    if len(complete) < MIN_BLOCKS:
        return found.model_copy(
            update={"reason": f"{units.counted(len(complete), 'block')} of {MIN_BLOCKS} needed have every level"}
        )
    connections = np.array([level for level, _ in cells])
    centred = connections - connections.mean()
    slopes: Reals = complete @ centred / (centred @ centred)
    (mean,), (error,) = t_statistics(slopes[None, :])
    reach = t_quantile(1 - alpha, len(slopes) - 1) * float(error)
    return found.model_copy(
        update={"bytes_per_connection": float(mean), "low": float(mean) - reach, "high": float(mean) + reach}
    )
