"""A connected host: its facts, and what can be done there, grouped by what it is done to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from types import MappingProxyType, TracebackType
from typing import Any, Self

from benchkit.errors import HostError
from benchkit.hosts import clock as clocks
from benchkit.hosts.agent_link import Link
from benchkit.hosts.clock import Clock
from benchkit.hosts.facts import facts_of, questions
from benchkit.hosts.files import Files
from benchkit.hosts.host_changes import Changes, Leftovers
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.processes import Processes
from benchkit.hosts.psutil_wheel import psutil_for
from benchkit.hosts.sockets import Sockets
from benchkit.hosts.watch import Telemetry
from benchkit.models.facts import HostFacts

TIDY_S = 20.0
"""An agent stops what it started and puts back what it changed well within this."""
FACTS_S = 20.0

GROUND = ("kernel", "cpus", "cores", "memory_bytes", "nofile_soft", "nofile_hard", "governor")
"""What may be another before one block than before the next: CPUs go offline, limits and governors are set."""

NO_PROGRAMS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class CoreTimes:
    """CPU time of the host's cores since its boot: core → kind (user, system, idle, steal, …) → seconds."""

    cores: Mapping[int, Mapping[str, float]]
    monotonic_ns: int
    """When they were read, on the host's monotonic clock."""


class Host:
    """One host with an agent on it; safe for many threads, and a context manager that closes it."""

    def __init__(self, spec: HostSpec, link: Link) -> None:
        """Take over a link whose agent has said hello; asks for facts. Raises HostError."""
        self.spec = spec
        self.name = spec.name
        self._link = link
        self._clock = clocks.compare(self._ask_for_clock)
        self.files = Files(link, spec.name)
        self.processes = Processes(link, spec.name, self.compare_clocks)
        self.sockets = Sockets(link, spec.name)
        self.telemetry = Telemetry(link)
        self.changes = Changes(link, spec.name)
        self.shared_with: str | None = None
        """The host of the same run that is the same machine under another name, and answers for its kernel."""
        self.notices: tuple[str, ...]
        """What this host lacks that makes benchkit see less; for people."""
        self.facts = self._gather()
        self.workdir = PurePosixPath(self.facts.workdir)

    def claim(self, run: str, who: str) -> Leftovers:
        """Hold the host for a run, and clear it of what earlier ones have left. Raises HostError."""
        held = self.changes.hold(run, self.name, who)
        self.shared_with = held.shared_with
        found = self.changes.clear()
        if held.waited or found != Leftovers():  # it was not itself when its facts were asked
            self.facts = self._gather()
        return found

    def compare_clocks(self) -> Clock:
        """The host's clocks beside the controller's, compared anew."""
        self._clock = clocks.compare(self._ask_for_clock)
        return self._clock

    @property
    def clock(self) -> Clock:
        """The comparison made last."""
        return self._clock

    def cores(self) -> CoreTimes:
        """CPU time of every core of the machine so far."""
        found = self._link.request("cores", {}).fields
        return CoreTimes({int(core): times for core, times in found["cores"].items()}, found["monotonic_ns"])

    def ground(self, also: Iterable[str] = (), programs: Mapping[str, str] = NO_PROGRAMS) -> Mapping[str, Any]:
        """The facts on which figures hang and that may change while the host is up, asked anew, with its clock.

        `also`: kernel settings beside those that always are; `programs`: name → path. They are not asked for their
        versions: a file of another size, or changed since, is another program.
        """
        asked = {"tools": {}, "sysctls": sorted({*self.facts.sysctls, *also}), "files": list(programs.values())}
        answer = self._link.request("facts", asked).fields
        found, files = answer["facts"], answer["files"]
        sysctls = {key: " ".join(str(each["value"]).split()) for key, each in found["sysctls"].items() if each["value"]}
        executables = {name: _told_apart(files[path]) for name, path in programs.items()}
        return (
            {name: found[name] for name in GROUND}
            | {"sysctls": sysctls, "executables": executables}
            | self.clock_facts()
        )

    def clock_facts(self) -> dict[str, Any]:
        """How the host's wall clock stands beside the controller's, asked anew, by the names that facts have."""
        clock = self.compare_clocks()
        return {"clock_offset_s": clock.wall_offset_s, "clock_uncertainty_s": clock.uncertainty_s}

    def request(self, op: str, args: Mapping[str, Any], body: bytes = b"", *, time_s: float = 0) -> Mapping[str, Any]:
        """An operation of the agent by its name, for those that have no method; its fields. Raises HostError."""
        return self._link.request(op, args, body, time_s=time_s).fields

    def close(self) -> tuple[str, ...]:
        """Have the agent stop what it started and put back what it changed, and hang up; what it could not, for people."""
        return tuple(f"{self.name}: {failure}" for failure in self._link.close(TIDY_S))

    @property
    def alive_s(self) -> float:
        """When it was certainly there, by the clock of `elapsed_s`."""
        return self._link.alive_s

    @property
    def in_good_order(self) -> bool:
        """Whether it was seen, when it was closed, to come to its end."""
        return self._link.in_good_order

    def let_go(self) -> None:
        """Hang up without waiting for anything, where the link is dead."""
        self._link.close(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = self.close()
        if failures and error is None:
            raise HostError("the host was not left as it was found", where=self.name, why="; ".join(failures))
        if error is not None:
            for failure in failures:
                error.add_note(failure)

    def _ask_for_clock(self) -> Mapping[str, int]:
        return self._link.request("clock", {}).fields

    def _gather(self) -> HostFacts:
        self.notices = ()
        named = self.spec.programs
        asked = questions(sudo=self.spec.sudo, named=named)
        answer = dict(self._link.request("facts", asked, time_s=FACTS_S).fields["facts"])
        if answer["psutil"] is None:
            why_not = self._bring_psutil(answer)
            if why_not is not None:
                self.notices = (f"{self.name} has no psutil ({why_not}): /proc has to do",)
        self.notices += tuple(
            f"{self.name}: {path} is no program that can be run there (inventory: programs.{name})"
            for name, path in named.items()
            if name not in answer["tools"]
        )
        try:
            return facts_of(answer, self._clock, named)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HostError("what this host says of itself makes no sense", where=self.name, why=repr(error)) from error

    def _bring_psutil(self, answer: dict[str, Any]) -> str | None:
        """Send psutil, and note it in the answer; why that did not work, if so."""
        archive = psutil_for(answer["machine"], answer["glibc"], answer["python"])
        if archive.content is None:
            return archive.why_not
        try:
            sha256 = self.files.store(archive.content)
            used = self._link.request("psutil", {"sha256": sha256}, time_s=FACTS_S).fields
        except HostError as error:
            return f"{error.what}: {error.why}" if error.why else error.what
        answer.update(psutil=used["version"], psutil_source=used["source"])
        return None


def _told_apart(file: Mapping[str, Any] | None) -> str | None:
    """What tells a file from another in its place, as a fact; None where there is none."""
    if file is None:
        return None
    return f"{file['bytes']} bytes of {datetime.fromtimestamp(file['changed_s'], UTC):%Y-%m-%d %H:%M:%S.%f}"
