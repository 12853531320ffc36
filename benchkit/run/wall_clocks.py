"""Detection of wall clocks that are set during a run. Pure.

Times of day are off by as much from then on: the names of runs, the starts of trials. Durations, windows, leases and
rates come from monotonic clocks, which cannot be set.
"""

from __future__ import annotations

from collections.abc import Mapping

MIN_STEP_S = 0.5
"""Smallest step that is reported. Time daemons step from 0.128 s on (ntpd(8)), and on a very busy machine two readings
of two clocks may be as far apart."""

CONTROLLER = "this machine"


class WallClocks:
    """The wall clocks of a run's machines, as they were at the last comparison."""

    def __init__(self) -> None:
        """Start without any reading."""
        self._offsets_ns: dict[str, int] = {}

    def compare(self, controller_ns: int, hosts_ns: Mapping[str, int]) -> str | None:
        """Return a clause about the clocks that were set since the last call; None where none was.

        Each is given as its wall clock less its monotonic one, the hosts' by name. A machine that was suspended looks
        the same, because its monotonic clock stops.
        """
        offsets_ns = {CONTROLLER: controller_ns, **hosts_ns}
        steps_s = {name: (ns - self._offsets_ns.get(name, ns)) / 1e9 for name, ns in offsets_ns.items()}
        self._offsets_ns |= offsets_ns
        parts = [
            f"{name} by {abs(step_s):.1f} s {'forward' if step_s > 0 else 'back'}"
            for name, step_s in steps_s.items()
            if abs(step_s) >= MIN_STEP_S
        ]
        return f"a wall clock was set, or the machine was suspended: {', '.join(parts)}" if parts else None

    def forget(self, name: str) -> None:
        """Forget the clock of a host that has rebooted: it is another one now."""
        self._offsets_ns.pop(name, None)
