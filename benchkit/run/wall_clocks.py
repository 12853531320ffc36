"""Wall clocks that are set while a run goes on: noticed, and said. Pure.

Times of day are off by as much from then on: the names of runs, when trials began. Durations, windows, leases and rates
are taken by monotonic clocks, which nobody sets.
"""

from __future__ import annotations

from collections.abc import Mapping

STEP_S = 0.5
"""A clock that is off by less was not set for people to notice; time daemons step from 0.128 s on (ntpd(8)), and two
readings of two clocks may be as far apart on a machine that is very busy."""

CONTROLLER = "this machine"


class WallClocks:
    """What the wall clocks of a run's machines were when they were looked at last."""

    def __init__(self) -> None:
        """Know none yet."""
        self._known: dict[str, int] = {}

    def look(self, controller_ns: int, hosts_ns: Mapping[str, int]) -> str | None:
        """What to say of those that were set since they were looked at last; None where none was.

        Each is given as its wall clock less its monotonic one, the hosts' by name. A machine that slept in between looks
        the same, for its monotonic clock stood still.
        """
        now = {CONTROLLER: controller_ns, **hosts_ns}
        steps = {name: (at_ns - self._known.get(name, at_ns)) / 1e9 for name, at_ns in now.items()}
        self._known |= now
        said = [
            f"of {name} by {abs(step_s):.1f} s {'forward' if step_s > 0 else 'back'}"
            for name, step_s in steps.items()
            if abs(step_s) >= STEP_S
        ]
        return f"wall clocks were set, or machines slept for so long: {', '.join(said)}" if said else None

    def forget(self, name: str) -> None:
        """A host has started anew, and its clocks with it."""
        self._known.pop(name, None)
