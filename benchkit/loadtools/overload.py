"""Figures of a shaped load: goodput and errors while it lasts, and how soon the objective holds again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.loadtools.measurement import Measurement, Second
from benchkit.models.base import Frozen
from benchkit.models.capacity import Objective
from benchkit.models.load import Load
from benchkit.models.metrics import PERCENTILES


class Overload(Frozen):
    """Figures of a window with a shape; None where no second has them."""

    goodput_rps: float | None = None
    """Requests per second answered without an error during the shape."""
    error_share: float | None = None
    """Share of the requests that ended during the shape with an error."""
    recovery_s: float | None = None
    """Time from the end of the shape to the end of the first second from which all hold the objective; None: never, or
    there is no objective."""


def overload_of(load: Load, measurement: Measurement | None) -> Overload | None:
    """Return the figures of a window; None for a load without a shape, and without a series of seconds."""
    if load.shape is None or load.duration_s is None or measurement is None or not measurement.seconds:
        return None
    during = measurement.seconds[load.shape.start_s : load.shape.end_s]
    ended, errors = sum(each.ended for each in during), sum(each.errors for each in during)
    after = measurement.seconds[load.shape.end_s : int(load.duration_s)]
    return Overload(
        goodput_rps=(ended - errors) / load.shape.length_s if during else None,
        error_share=errors / ended if ended else None,
        recovery_s=None if load.capacity is None else _recovery_s(after, load.capacity.slo),
    )


def _recovery_s(seconds: Sequence[Second], objective: Objective) -> float | None:
    held = [_holds(second, objective) for second in seconds]
    broken = max((number for number, is_held in enumerate(held) if not is_held), default=-1)
    return None if broken == len(held) - 1 else float(broken + 2)


def _holds(second: Second, objective: Objective) -> bool:
    """Return True if the answers of a second keep the objective; a second without answers does not."""
    if second.latency is None or second.errors > objective.error_share * second.ended:
        return False
    reached = {name: second.latency.percentile(PERCENTILES[name].percent) for name in objective.latencies}
    return all(seconds is not None and seconds <= objective.latencies[name] for name, seconds in reached.items())
