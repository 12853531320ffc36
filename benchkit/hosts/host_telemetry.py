"""Telemetry of a host during a trial; samples stay in a file on the host until they are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchkit.hosts.agent_link import Link
from benchkit.hosts.files import HostPath
from benchkit.hosts.processes import HostProcess
from benchkit.hosts.sockets import Tcp, Unix, address_message

SNAPSHOT_TIMEOUT_S = 5.0
"""Time for sampling everything once: milliseconds, more on a host that is stopped or overloaded."""


@dataclass(frozen=True)
class CounterPage:
    """The page that has a server's own counters."""

    kind: str
    """Format of the page: `expvar`, `node` or `nginx`."""
    at: Tcp | Unix
    path: str
    handshake_logs: Mapping[str, HostPath] = field(default_factory=dict)
    """Logs of TLS handshakes by their kind, a line of two bytes for each; empty where the page has them, or no TLS."""


@dataclass(frozen=True)
class WatchedService:
    """A process to sample with all its descendants, under its name in the telemetry."""

    name: str
    process: HostProcess | None
    """None: all processes that a timetable starts under this name."""
    listeners: Sequence[Tcp | Unix] = ()
    """Sockets whose accept queues and established connections are sampled."""
    threads: bool = False
    """True to sample the CPU time of each thread."""
    counters: CounterPage | None = None


@dataclass(frozen=True)
class TelemetrySnapshot:
    """The result of sampling everything once, outside of the regular interval."""

    at_ns: int
    """Instant just before it, on the host's monotonic clock."""
    processes: Mapping[str, tuple[tuple[int, int], ...]]
    """Live processes of each service: pid, and start in the kernel's ticks since boot."""


@dataclass(frozen=True)
class TelemetrySummary:
    """The end of a telemetry session."""

    cpu_quota: float | None
    """CPU quota that control groups give the host; None: no quota."""
    unavailable: tuple[str, ...]
    """Data that could not be sampled, or not always, with the reasons."""


class Telemetry:
    """The telemetry of one host, one session at a time; safe for many threads."""

    def __init__(self, link: Link) -> None:
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
        args: dict[str, Any] = {"path": str(path), "interval_s": interval_s, "core_interval_s": core_interval_s}
        self._link.request("telemetry_start", {**args, "services": [_message(each) for each in services]})

    def add(self, services: Iterable[WatchedService]) -> None:
        """Sample these services too. Raises HostError."""
        self._link.request("telemetry_add", {"services": [_message(each) for each in services]})

    def snapshot(self) -> TelemetrySnapshot:
        """Sample everything now, outside of the regular interval. Raises HostError."""
        fields = self._link.request("telemetry_snapshot", {}, timeout_s=SNAPSHOT_TIMEOUT_S).fields
        trees = {name: tuple((pid, start) for pid, start in tree) for name, tree in fields["processes"].items()}
        return TelemetrySnapshot(fields["at_ns"], trees)

    def schedule_snapshots(self, at_ns: Sequence[int]) -> None:
        """Sample at these instants of the host's monotonic clock, and at none of the interval until they are over.

        Raises HostError.
        """
        self._link.request("telemetry_schedule_snapshots", {"at_ns": list(at_ns)})

    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample what is expensive at these instants of the host's monotonic clock: connections and clock rates.

        Established connections are counted for all services sampled at the time of the call. Raises HostError.
        """
        self._link.request("telemetry_schedule_samples", {"at_ns": list(at_ns)})

    def latest(self) -> dict[str, dict[str, tuple[int, float]]]:
        """Return the last values of each service: metric → (ns on the host's monotonic clock, value)."""
        services = self._link.request("telemetry_latest", {}).fields["services"]
        return {
            service: {metric: (at_ns, value) for metric, (at_ns, value) in metrics.items()}
            for service, metrics in services.items()
        }

    def stop(self) -> TelemetrySummary | None:
        """End the session; return None where none is running. Raises HostError."""
        summary = self._link.request("telemetry_stop", {}, timeout_s=SNAPSHOT_TIMEOUT_S).fields["summary"]
        return None if summary is None else TelemetrySummary(summary["cpu_quota"], tuple(summary["unseen"]))


def _message(service: WatchedService) -> dict[str, Any]:
    """Return the agent's message for a service."""
    page = service.counters
    return {
        "name": service.name,
        "process": None if service.process is None else service.process.id,
        "listeners": [address_message(socket) for socket in service.listeners],
        "threads": service.threads,
        "counters": None if page is None else _page_message(page),
    }


def _page_message(page: CounterPage) -> dict[str, Any]:
    """Return the agent's message for a server's own counters."""
    logs = {kind: str(path) for kind, path in page.handshake_logs.items()}
    return {"kind": page.kind, "path": page.path, "handshake_logs": logs, **address_message(page.at)}
