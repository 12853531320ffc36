"""Telemetry of a host during a trial; samples stay in a file on the host until they are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchkit.agent import operations as ops
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import HostPath
from benchkit.hosts.processes import HostProcess
from benchkit.hosts.sockets import Address, socket_address

SNAPSHOT_TIMEOUT_S = 20.0
"""Time for sampling everything once: milliseconds, and seconds on a host that is overloaded."""


@dataclass(frozen=True)
class CounterPage:
    """The page that has a server's own counters."""

    kind: str
    """Format of the page: `expvar`, `node` or `nginx`."""
    at: Address
    path: str
    handshake_logs: Mapping[str, HostPath] = field(default_factory=dict)
    """Logs of TLS handshakes by their kind, a line of two bytes for each; empty where the page has them, or no TLS."""


@dataclass(frozen=True)
class WatchedService:
    """A process to sample with all its descendants, under its name in the telemetry."""

    name: str
    process: HostProcess | None
    """None: all processes that a timetable starts under this name; with `threads`, the next of them."""
    listeners: Sequence[Address] = ()
    """Sockets whose accept queues and established connections are sampled."""
    threads: bool = False
    """True to sample the CPU time of each thread."""
    counters: CounterPage | None = None


class Telemetry:
    """The telemetry of one host, one session at a time; safe for many threads."""

    def __init__(self, link: AgentLink) -> None:
        """Send requests to the host's agent over its link."""
        self._link = link

    def start(
        self,
        path: HostPath,
        interval_s: float,
        services: Iterable[WatchedService] = (),
        *,
        core_interval_s: float | None = None,
    ) -> None:
        """Start to sample the host and these services, into a new file below the work directory.

        `core_interval_s` is the interval of core speeds where it is another. Raises HostError, also where a session is
        running already.
        """
        self._link.request(ops.StartTelemetry(str(path), interval_s, list(map(_sampled, services)), core_interval_s))

    def add(self, services: Iterable[WatchedService]) -> None:
        """Sample these services too. Raises HostError."""
        self._link.request(ops.AddServices(list(map(_sampled, services))))

    def snapshot(self) -> ops.TelemetrySnapshot:
        """Sample everything now, outside of the regular interval. Raises HostError."""
        return self._link.request(ops.TakeSnapshot(), timeout_s=SNAPSHOT_TIMEOUT_S)

    def schedule_snapshots(self, at_ns: Sequence[int]) -> None:
        """Sample at these instants of the host's monotonic clock, and at none of the interval until they are over.

        Raises HostError.
        """
        self._link.request(ops.ScheduleSnapshots(list(at_ns)))

    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample what is expensive at these instants of the host's monotonic clock: connections and clock rates.

        Established connections are counted for all services sampled at the time of the call. Raises HostError.
        """
        self._link.request(ops.ScheduleSamples(list(at_ns)))

    def latest(self) -> dict[str, dict[str, tuple[int, float]]]:
        """Return the last values of each service: metric → (ns on the host's monotonic clock, value)."""
        return self._link.request(ops.ReadLatest())

    def stop(self) -> ops.TelemetrySummary | None:
        """End the session; return None where none is running. Raises HostError."""
        return self._link.request(ops.StopTelemetry(), timeout_s=SNAPSHOT_TIMEOUT_S)


def _sampled(service: WatchedService) -> ops.SampledService:
    page = service.counters
    return ops.SampledService(
        name=service.name,
        process=None if service.process is None else service.process.id,
        listeners=[socket_address(at) for at in service.listeners],
        threads=service.threads,
        counters=None if page is None else _counter_source(page),
    )


def _counter_source(page: CounterPage) -> ops.CounterSource:
    logs = {kind: str(path) for kind, path in page.handshake_logs.items()}
    return ops.CounterSource(page.kind, socket_address(page.at), page.path, logs)
