"""A trial as the list of its steps, and a run as the list of its trials.

Nothing here decides what is run (that is the plan's), how a host is spoken to (`hosts`), or where things are stored
(`results`): this file is the order of things, to be read from top to bottom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Protocol

from benchkit.errors import HostError
from benchkit.hosts.connect import Hosts
from benchkit.hosts.host import Host
from benchkit.load.crew import Drove, Left
from benchkit.load.drive import drive, fetch
from benchkit.load.generator import warming_up
from benchkit.models.trial import GeneratorRecord, ProbeRecord, ServiceRecord, TrialRecord
from benchkit.planning import PlannedCell, RunPlan
from benchkit.scenario.schedule import Slot
from benchkit.stack import deploy
from benchkit.stack.deploy import Running

HTTP_TIMEOUT_S = 10.0
FIRST_FAILURE = 400
"""A status from here on is no answer to be measured (RFC 9110, 15.5)."""


class Watcher(Protocol):
    """Who is told how a run goes."""

    def stage(self, text: str) -> None:
        """A stage of the run begins."""

    def trial_started(self, slot: Slot) -> None:
        """A trial begins."""

    def trial_ended(self, slot: Slot, rps: float | None) -> None:
        """A trial ended with this rate."""

    def trial_failed(self, slot: Slot, why: str) -> None:
        """A trial could not be carried out."""


@dataclass
class Trial:
    """A trial under way: what it is, and what its steps have found so far."""

    trial_id: str
    slot: Slot
    cell: PlannedCell
    hosts: Hosts
    folder: PurePosixPath
    """Its own folder below every host's work directory."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    running: list[Running] = field(default_factory=list)
    probe: ProbeRecord | None = None
    warmed_up_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    drove: tuple[Drove, ...] = ()
    generators: tuple[GeneratorRecord, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    """What is stored of it: name → content."""

    @property
    def load_hosts(self) -> tuple[Host, ...]:
        """The hosts of its generators; the first of them also probes."""
        return tuple(self.hosts[name] for name in dict.fromkeys(each.host for each in self.cell.generators))

    def by_host(self) -> Iterable[tuple[Host, list[Running]]]:
        """The services that run, grouped by host."""
        for name in dict.fromkeys(each.service.host for each in self.running):
            yield self.hosts[name], [each for each in self.running if each.service.host == name]


def require_free_ports(trial: Trial) -> None:
    """Nobody may listen where the services will; after the trial, nobody may listen there any more."""
    for host, services in deploy.by_host(trial.cell.services).items():
        deploy.require_free(trial.hosts[host], services)


def start_services(trial: Trial) -> None:
    """Start every service afresh, each when those before it accept connections."""
    for service in trial.cell.services:
        trial.running.append(deploy.start(trial.hosts[service.host], service, trial.folder))


def probe_response(trial: Trial) -> None:
    """Ask once, from the first load host, and keep what was answered."""
    load, host = trial.cell.load, trial.load_hosts[0]
    endpoint = next(each.service.endpoint for each in trial.running if each.service.name == trial.cell.cell.entry)
    answer = host.sockets.http(
        deploy.socket_of(endpoint),
        load.path,
        method=load.method,
        headers=_with_host(load.headers, endpoint.authority),
        body=(load.body or "").encode(),
        timeout_s=HTTP_TIMEOUT_S,
    )
    if answer.status >= FIRST_FAILURE:
        raise HostError(f"{trial.cell.target} answers {answer.status}", where=host.name)
    trial.probe = ProbeRecord(
        status=answer.status,
        header_bytes=answer.header_bytes,
        headers=answer.headers,
        body_bytes=answer.body_bytes,
        body_sha256=answer.body_sha256,
    )


def _with_host(headers: Mapping[str, str], authority: str) -> list[tuple[str, str]]:
    """The headers of the load; the target's own Host where they have none (RFC 9112, 3.2: exactly one)."""
    named = any(name.lower() == "host" for name in headers)
    return [*([] if named else [("Host", authority)]), *headers.items()]


def warm_up(trial: Trial) -> None:
    """Put the same load on for a while, and throw its results away."""
    began = time.monotonic()
    if trial.cell.load.warmup_s:
        generators = [warming_up(each, trial.cell.target) for each in trial.cell.generators]
        drive(trial.hosts, generators, trial.folder / "warm-up")
        trial.warmed_up_s = time.monotonic() - began


def measure(trial: Trial) -> None:
    """Put the load on, and note the CPU time that the services took under it."""
    before = _cpu(trial)
    trial.drove = drive(trial.hosts, trial.cell.generators, trial.folder / "measure")
    after = _cpu(trial)
    trial.cpu_s = {name: after[name] - before[name] for name in after}


def require_alive(trial: Trial) -> None:
    """A service that ended under the load makes the trial worthless."""
    for host, services in trial.by_host():
        for each in services:
            ended = each.process.wait(0)
            if ended is not None:
                raise HostError(
                    f"{each.service.name} ({each.service.backend}) ended during the trial with {ended}",
                    where=host.name,
                    why=deploy.last_words(host, each.log),
                )


def collect(trial: Trial) -> None:
    """Bring what the tools and the services wrote to the controller."""
    left = fetch(trial.hosts, trial.drove)
    first_s = min(each.started_s for each in trial.drove)
    for drove in trial.drove:
        contents = left[drove.generator.number]
        names = {kind: drove.files[kind].name for kind in contents}
        trial.files |= {names[kind]: content for kind, content in contents.items()}
        trial.generators += (_generator_record(drove, names, drove.started_s - first_s),)
    for host, services in trial.by_host():
        for each in services:
            if log := host.files.read(each.log):
                trial.files[f"{each.service.name}.{host.name}.log"] = log


def stop_services(trial: Trial) -> None:
    """Stop everything that was started."""
    failures = []
    for host, services in trial.by_host():
        try:
            deploy.stop(host, services)
        except HostError as error:
            failures.append(error)
    for failure in failures:
        raise failure


def clear_away(trial: Trial) -> None:
    """Remove the trial's folder from the hosts."""
    names = [*(host.name for host in trial.load_hosts), *(service.host for service in trial.cell.services)]
    for name in dict.fromkeys(names):
        trial.hosts[name].files.remove(trial.folder)


Step = Callable[[Trial], None]

STEPS: tuple[Step, ...] = (
    require_free_ports,
    start_services,
    probe_response,
    warm_up,
    measure,
    require_alive,
    collect,
)
"""What a trial does, in this order."""

AFTERWARDS: tuple[Step, ...] = (stop_services, clear_away, require_free_ports)
"""What ends every trial, however far it came."""


def run_trial(trial: Trial) -> TrialRecord:
    """Carry out a trial. Raises HostError where it fails; its services are stopped whatever happens."""
    try:
        for step in STEPS:
            step(trial)
    except BaseException as error:  # Ctrl-C too: what went wrong first is what is raised
        for failure in _afterwards(trial):
            error.add_note(f"and afterwards: {failure}")
        raise
    for failure in _afterwards(trial):
        raise failure
    return record_of(trial)


def _afterwards(trial: Trial) -> list[HostError]:
    """Carry out what ends every trial, each step whatever became of those before it; what failed."""
    failures = []
    for step in AFTERWARDS:
        try:
            step(trial)
        except HostError as error:
            failures.append(error)
    return failures


def record_of(trial: Trial) -> TrialRecord:
    """What is kept of a trial that was carried out, beside its files."""
    if trial.probe is None or not trial.generators:
        raise AssertionError("a step was left out")
    return TrialRecord(
        trial_id=trial.trial_id,
        cell_id=trial.cell.cell_id,
        levels=trial.cell.cell.levels,
        block=trial.slot.block,
        position=trial.slot.position,
        started_at=trial.started_at,
        wall_s=time.monotonic() - trial.began,
        warmed_up_s=trial.warmed_up_s,
        load=trial.cell.load,
        target=trial.cell.target,
        services=tuple(
            ServiceRecord(
                name=each.service.name,
                backend=each.service.backend,
                host=each.service.host,
                pid=each.process.pid,
                argv=each.service.process.argv,
                cpu_s=trial.cpu_s.get(each.service.name),
            )
            for each in trial.running
        ),
        generators=trial.generators,
        start_spread_s=max(each.started_s for each in trial.generators),
        clock_uncertainty_s=_uncertainty_s(trial.drove),
        probe=trial.probe,
    )


def trial_of(plan: RunPlan, slot: Slot, run_id: str, hosts: Hosts) -> Trial:
    """A trial of the plan, about to begin."""
    trial_id = f"{run_id}.b{slot.block:03}.p{slot.position:03}"
    return Trial(
        trial_id=trial_id,
        slot=slot,
        cell=plan.cell(slot.cell_id),
        hosts=hosts,
        folder=PurePosixPath("trials") / trial_id,
    )


def _generator_record(drove: Drove, names: dict[Left, str], started_s: float) -> GeneratorRecord:
    return GeneratorRecord(
        number=drove.generator.number,
        host=drove.generator.host,
        argv=drove.generator.argv,
        load=drove.generator.load,
        files=names,
        started_s=started_s,
        wall_s=drove.ended_s - drove.started_s,
        late_s=drove.late_s,
        cpu_s=drove.ended.user_s + drove.ended.system_s,
    )


def _uncertainty_s(drove: Sequence[Drove]) -> float:
    """How far the starts of generators on different hosts may be off, one against the other; 0 on one host."""
    by_host = {each.generator.host: each.clock_uncertainty_s for each in drove}
    return 2 * max(by_host.values()) if len(by_host) > 1 else 0.0


def _cpu(trial: Trial) -> dict[str, float]:
    used: dict[str, float] = {}
    for host, services in trial.by_host():
        spent = host.processes.cpu(each.process for each in services)
        used |= {each.service.name: spent[each.process.id].total_s for each in services}
    return used
