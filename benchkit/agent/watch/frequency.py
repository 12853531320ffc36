"""Clock rate of every core: psutil's work, which knows what differs between kernels and machines."""

from __future__ import annotations

from typing import Any

from benchkit.agent.watch.collector import Collector, UnseenError, Values


class Frequency(Collector):
    """Clock rate by core. On many a machine a look disturbs the core that is looked at, so there are few.

    They have to come under load: a core without work clocks down.
    """

    def __init__(self, psutil: Any) -> None:  # noqa: ANN401 - a module, or None
        if psutil is None:
            raise UnseenError("clock rate: there is no psutil")
        self._psutil = psutil

    def sample(self) -> Values:
        """Hertz by core."""
        try:
            rates = self._psutil.cpu_freq(percpu=True) or []
        except (NotImplementedError, OSError) as error:
            raise UnseenError(f"clock rate: {error}") from None
        found: Values = {
            ("cpu_frequency_hz", str(core)): rate.current * 1e6 for core, rate in enumerate(rates) if rate.current
        }
        if not found:
            raise UnseenError("clock rate: the host does not tell it")
        return found
