"""Watching a host while it is measured; the samples stay there in a file until they are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchkit.hosts.agent_link import Link
from benchkit.hosts.files import HostPath
from benchkit.hosts.processes import Process
from benchkit.hosts.sockets import Tcp, Unix, place

LOOK_S = 5.0
"""A look at a host takes milliseconds; one that is stopped or overwhelmed takes longer."""


@dataclass(frozen=True)
class Counters:
    """The page on which a server tells its own counters."""

    kind: str
    """What it is written in: `expvar`, `node` or `nginx`."""
    at: Tcp | Unix
    path: str


@dataclass(frozen=True)
class WatchedService:
    """A process of the host to be watched, with all its descendants, under the name that it gets in the telemetry."""

    name: str
    process: Process
    listens: Sequence[Tcp | Unix] = ()
    """Sockets whose accept queues and established connections are of interest."""
    threads: bool = False
    """Whether the CPU time of each of its threads is."""
    counters: Counters | None = None


@dataclass(frozen=True)
class TelemetrySnapshot:
    """A look at the host beside the rhythm."""

    at_ns: int
    """Just before it, on the host's monotonic clock."""
    processes: Mapping[str, tuple[tuple[int, int], ...]]
    """The living processes of each service: pid, and start in the kernel's ticks since boot."""


@dataclass(frozen=True)
class Watch:
    """A watch that has ended."""

    cpu_quota: float | None
    """CPUs' worth of time that control groups grant the host; None: no quota."""
    unseen: tuple[str, ...]
    """What could not be watched, or not always, for people."""


class Telemetry:
    """The telemetry of one host, of which one watch at a time goes on; safe for many threads."""

    def __init__(self, link: Link) -> None:
        """Speak to the host's agent over its link."""
        self._link = link

    def start(self, path: HostPath, interval_s: float, services: Iterable[WatchedService] = ()) -> None:
        """Begin to watch the host and these of its processes, writing to a new file below the work directory.

        Raises HostError, also where the host is being watched already.
        """
        args = {"path": str(path), "interval_s": interval_s, "services": [_message(each) for each in services]}
        self._link.request("telemetry_start", args)

    def add(self, services: Iterable[WatchedService]) -> None:
        """Watch these processes, too. Raises HostError."""
        self._link.request("telemetry_add", {"services": [_message(each) for each in services]})

    def look(self) -> TelemetrySnapshot:
        """Look at everything now, beside the rhythm. Raises HostError."""
        found = self._link.request("telemetry_mark", {}, time_s=LOOK_S).fields
        trees = {name: tuple((pid, start) for pid, start in tree) for name, tree in found["processes"].items()}
        return TelemetrySnapshot(found["at_ns"], trees)

    def look_at(self, at_ns: Sequence[int]) -> None:
        """Look at what is dear at these instants of the host's monotonic clock: connections and clock rates.

        Of all services watched by now the established connections are counted. Raises HostError.
        """
        self._link.request("telemetry_look_at", {"at_ns": list(at_ns)})

    def now(self) -> dict[str, dict[str, tuple[int, float]]]:
        """What was seen last of each service that is watched: metric → (ns on the host's monotonic clock, value)."""
        seen = self._link.request("telemetry_now", {}).fields["services"]
        return {
            service: {metric: (at_ns, value) for metric, (at_ns, value) in metrics.items()}
            for service, metrics in seen.items()
        }

    def stop(self) -> Watch | None:
        """End the watch; None where there is none. Raises HostError."""
        found = self._link.request("telemetry_stop", {}, time_s=LOOK_S).fields["stopped"]
        return None if found is None else Watch(found["cpu_quota"], tuple(found["unseen"]))


def _message(watched: WatchedService) -> dict[str, Any]:
    """What the agent is told of a service."""
    page = watched.counters
    return {
        "name": watched.name,
        "process": watched.process.id,
        "listen": [place(socket) for socket in watched.listens],
        "threads": watched.threads,
        "admin": None if page is None else {"kind": page.kind, "path": page.path, **place(page.at)},
    }
