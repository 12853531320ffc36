"""Clock rate of every core: psutil's work, which knows what differs between kernels and machines."""

from __future__ import annotations

from typing import Any

from benchkit.agent.watch.base import Collector, Pace, UnseenError, Values


class Frequency(Collector):
    """Clock rate by core. On many a machine a look disturbs the core that is looked at, so it is taken seldom."""

    SHARE = 0.00002

    def __init__(self, psutil: Any) -> None:  # noqa: ANN401 - a module, or None
        if psutil is None:
            raise UnseenError("clock rate: there is no psutil")
        self._psutil = psutil
        self._pace = Pace(self.SHARE)
        if not self._look():
            raise UnseenError("clock rate: the host does not tell it")

    def sample(self) -> Values:
        """Hertz by core, where it is time."""
        if not self._pace.begin():
            return {}
        found = self._look()
        self._pace.end()
        return found

    def hurry(self) -> None:
        """Hold nothing back at the next look."""
        self._pace.hurry()

    def _look(self) -> Values:
        try:
            rates = self._psutil.cpu_freq(percpu=True) or []
        except (NotImplementedError, OSError) as error:
            raise UnseenError(f"clock rate: {error}") from None
        return {("cpu_frequency_hz", str(core)): rate.current * 1e6 for core, rate in enumerate(rates) if rate.current}
