"""Telemetry of a host during a trial; samples stay in a file on the host until they are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchkit.agent import operations as ops
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import HostPath

SNAPSHOT_TIMEOUT_S = 20.0
"""Time for sampling everything once: it takes milliseconds, on an overloaded host seconds."""


class Telemetry:
    """The telemetry of one host, one session at a time; safe for many threads."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def start(
        self,
        path: HostPath,
        interval_s: float,
        services: Iterable[ops.SampledService] = (),
        *,
        core_interval_s: float | None = None,
    ) -> None:
        """Start to sample the host and these services, and write to a new file below the work directory.

        `core_interval_s` is the interval of core speeds, if it differs. Raises HostError, also where a session is
        running already.
        """
        self._link.request(ops.StartTelemetry(str(path), interval_s, list(services), core_interval_s))

    def add(self, services: Iterable[ops.SampledService]) -> None:
        """Sample these services too. Raises HostError."""
        self._link.request(ops.AddServices(list(services)))

    def snapshot(self) -> ops.TelemetrySnapshot:
        """Sample everything now, outside of the regular interval. Raises HostError."""
        return self._link.request(ops.TakeSnapshot(), timeout_s=SNAPSHOT_TIMEOUT_S)

    def schedule_snapshots(self, at_ns: Sequence[int]) -> None:
        """Sample at these instants of the host's monotonic clock; regular samples pause until they are over.

        Raises HostError.
        """
        self._link.request(ops.ScheduleSnapshots(list(at_ns)))

    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample expensive data (connections and clock rates) at these instants of the host's monotonic clock.

        Connections are counted for the services that are sampled at the time of the call. Raises HostError.
        """
        self._link.request(ops.ScheduleSamples(list(at_ns)))

    def latest(self) -> dict[str, dict[str, tuple[int, float]]]:
        """Return the last values of each service: metric → (ns on the host's monotonic clock, value)."""
        return self._link.request(ops.ReadLatest())

    def stop(self) -> ops.TelemetrySummary | None:
        """End the session; return None where none is running. Raises HostError."""
        return self._link.request(ops.StopTelemetry(), timeout_s=SNAPSHOT_TIMEOUT_S)
