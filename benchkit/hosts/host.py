"""A connected host: its facts, calls of its agent's operations, and what takes several of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType, TracebackType
from typing import Literal, Self

from benchkit.agent.facts import FactsReader
from benchkit.agent.operations import UndoneChange, WatchdogReport
from benchkit.agent.records import Records
from benchkit.agent.server import Agent
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.errors import HostError
from benchkit.hosts import clock as clocks
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.clock import Clock
from benchkit.hosts.facts import SYSCTLS, parse_facts, parse_variable_facts, queried_programs, version_queries
from benchkit.hosts.files import Files, hint_at_private_folder
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.processes import Processes
from benchkit.hosts.sockets import Sockets
from benchkit.models.facts import EngineFact, HostFacts, RecordedFacts

ChangeScope = Literal["run", "cell"]
"""Scope of a kernel setting: the whole run, or the trials of one cell, which override the run's settings."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Leftovers:
    """The traces of an earlier run on a host."""

    reports: tuple[WatchdogReport, ...] = ()
    """Reports of its watchdog."""
    restored: tuple[UndoneChange, ...] = ()
    """Changes that were still in place and have now been restored."""


class HostChanges:
    """The changes made to one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str) -> None:
        self._link = link
        self._host = host

    def restore(self, *, own: bool = False, scope: ChangeScope | None = None) -> list[UndoneChange]:
        """Restore the changes made over this link and, unless `own`, those of abandoned runs.

        With a `scope`, restore only the kernel settings that were written with it. Raises HostError.
        """
        changes = self._link.call(Undo.restore, own=own, scope=scope)
        for change in changes:
            logger.info("%s: %s: %s", self._host, change.text, "; ".join(change.failures) or change.how)
        return changes

    def clean_up(self) -> Leftovers:
        """Restore the changes of abandoned runs, and read the reports of their watchdogs.

        Raises HostError where something cannot be restored.
        """
        traces = self._link.call(Undo.traces)
        restored: tuple[UndoneChange, ...] = ()
        if any(record.state == "abandoned" for record in traces.records):
            restored = tuple(change for change in self.restore() if change.how != "kept")
        if failures := [failure for change in restored for failure in change.failures]:
            raise HostError(
                "changes of an earlier run cannot be restored",
                where=self._host,
                why="; ".join(failures),
                hint="run `benchkit hosts restore` to try again; the record is kept until it succeeds",
            )
        for report in traces.reports:
            self._link.call(Records.delete_report, report.name)
        return Leftovers(tuple(traces.reports), restored)


CLOSE_TIMEOUT_S = 20.0
"""Time for an agent to stop its processes and to restore its changes."""

NO_PROGRAMS: Mapping[str, str] = MappingProxyType({})


class Host:
    """One host with an agent on it; safe for many threads, and a context manager that closes it."""

    def __init__(self, spec: HostSpec, link: AgentLink) -> None:
        """Take over a link after the agent's `Hello`, and read clocks and facts. Raises HostError."""
        self.spec = spec
        self.name = spec.name
        self.link = link
        self.call, self.call_within = link.call, link.call_within
        self.clock = self.compare_clocks()
        """Result of the last comparison of clocks."""
        self.files = Files(link, spec.name)
        self.processes = Processes(link, spec.name, lambda: self.clock)
        self.sockets = Sockets(link, spec.name)
        self.changes = HostChanges(link, spec.name)
        self.shared_with: str | None = None
        """Host of the same run on the same machine, through which this host's kernel is changed."""
        self.notes: tuple[str, ...]
        """Problems of this host that limit what benchkit can do there, as sentences."""
        self.sought_programs: frozenset[str] = frozenset()
        """Names of the programs that were searched for, beside those that benchkit knows."""
        self._engines: dict[str, EngineFact] = {}
        self.facts = self._gather_facts()
        self.workdir = PurePosixPath(self.facts.workdir)

    def lock_for(self, run: str, who: str) -> Leftovers:
        """Lock the host for a run, and restore what earlier runs left. Raises HostError."""
        logger.info("%s: locking the host for %s", self.name, run)
        locked = self.call(WatchdogLink.lock, run, self.name, who)
        self.shared_with = locked.shared_with
        shared = f", shared with {locked.shared_with}" if locked.shared_with else ""
        logger.info("%s: locked for %s%s", self.name, run, shared)
        leftovers = self.changes.clean_up()
        if locked.waited or leftovers != Leftovers():  # the facts were gathered before the host was restored
            self.facts = self._gather_facts()
        return leftovers

    def find_programs(self, names: Iterable[str]) -> None:
        """Add these programs to the facts where the host has them: names on its PATH, or absolute paths.

        Only programs unknown to benchkit are searched for; their versions are not read. Raises HostError.
        """
        unknown = frozenset(names) - self.sought_programs - version_queries(self.spec.programs).keys()
        if unknown:
            self.sought_programs |= unknown
            self.facts = self._gather_facts()

    def add_engine(self, name: str, engine: EngineFact) -> None:
        """Add a container engine to the facts. The query takes seconds, so it is made only where the engine is used."""
        self._engines[name] = engine
        self.facts = self.facts.model_copy(update={"engines": dict(self._engines)})

    def compare_clocks(self) -> Clock:
        """Compare the host's clocks with the controller's."""
        self.clock = clocks.compare(lambda: self.call(Agent.read_clocks))
        return self.clock

    def variable_facts(self, sysctls: Iterable[str] = (), programs: Mapping[str, str] = NO_PROGRAMS) -> RecordedFacts:
        """Return the facts that may change while the host is up, read now, with its clock offset.

        `sysctls` are read in addition to the usual ones. `programs` (name → path) are read as size and time of change:
        if either differs, the program has been replaced.
        """
        keys = sorted({*self.facts.sysctls, *sysctls})
        facts = self.call(FactsReader.gather, {}, keys, files=list(programs.values()))
        return parse_variable_facts(facts, self.compare_clocks(), programs)

    def close(self) -> tuple[str, ...]:
        """Have the agent stop its processes and restore its changes, then disconnect; return failures."""
        return tuple(f"{self.name}: {failure}" for failure in self.link.close(CLOSE_TIMEOUT_S))

    def hang_up(self) -> None:
        """Disconnect a dead link without waiting for anything."""
        self.link.close(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = self.close()
        if failures and error is None:
            raise HostError("the host was not restored", where=self.name, why="; ".join(failures))
        if error is not None:
            for failure in failures:
                error.add_note(failure)

    def _gather_facts(self) -> HostFacts:
        named = self.spec.programs
        tools = queried_programs(named, self.sought_programs)
        answer = self.call(FactsReader.gather, tools, SYSCTLS, sudo=self.spec.sudo)
        facts = parse_facts(answer, self.clock, named, self.sought_programs)
        facts = facts.model_copy(update={"engines": dict(self._engines)}) if self._engines else facts
        self.notes = tuple(
            f"{self.name}: {path} is not a program that can be run there (inventory: programs.{name})"
            + "".join(f"; {hint}" for hint in (hint_at_private_folder(path),) if hint)
            for name, path in named.items()
            if name not in facts.programs
        )
        return facts
