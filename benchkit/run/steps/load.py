"""The load of a block: warm-up, slices or a window in one piece, and the output of the load tools."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Literal

from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError, LoadToolHangError
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.other_programs import busiest_programs, take_snapshot
from benchkit.loadtools.generators.execution import (
    START_LEAD_S,
    SUFFIXES,
    GeneratorRun,
    OutputKind,
    PlannedSlice,
    place_inputs,
    run_slices,
    start_of_load,
)
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.generators.outputs import Outputs, failure_of, fetch_outputs, has_hung
from benchkit.loadtools.registry import get_tool
from benchkit.models.rows import SliceRow
from benchkit.models.trial import GeneratorRecord
from benchkit.run.steps.probe import probe_during
from benchkit.run.steps.profiles import start_captures, start_traces
from benchkit.run.steps.services import blame_ended_service
from benchkit.run.steps.state import Block, Trial
from benchkit.run.steps.telemetry import HostsSnapshot, schedule_samples, snapshot_hosts
from benchkit.scenario.trial_order import Turn, plan_turns, slice_count
from benchkit.store.trial_tables import pack_slices

PROBED_AT = 0.4
"""Point of a window, or of the middle slice, at which its server is probed; connections are counted at other points."""


def make_shared_folder(block: Block) -> None:
    """Make the folder of a sliced block on all hosts, which remove it even if the controller is lost."""

    def make(host: Host) -> None:
        block.folder_hosts.append(host)
        host.call(FileStore.mkdir_temporary, block.folder)

    if block.slice_s is not None:
        run_on_hosts(block.used_hosts, make)


def remove_shared_folder(block: Block) -> None:
    """Remove the folder of a sliced block from its hosts. Raises HostError."""
    run_on_hosts(block.folder_hosts, lambda host: host.call(FileStore.remove, block.folder))


@contextmanager
def scheduled_calls(max_calls: int) -> Iterator[Callable[[float, Callable[[], None]], None]]:
    """Yield a function that schedules a call at an instant of `time.monotonic()`, in a thread of its own.

    The end of the context drops calls that are not yet due and waits for the others. Their first error is raised,
    unless the body of the context raised one.
    """
    ended = Event()
    calls: list[Future[None]] = []

    def call_at(at_s: float, call: Callable[[], None]) -> None:
        if not ended.wait(max(0.0, at_s - time.monotonic())):
            call()

    with ThreadPoolExecutor(max_calls) as pool:
        try:
            yield lambda at_s, call: calls.append(pool.submit(call_at, at_s, call))
        finally:
            ended.set()
    for each in calls:
        each.result()


def warm_up(trial: Trial) -> None:
    """Run the same load for the warm-up time, without keeping its results, unless the servers are warm already."""
    if trial.owner is not None or not trial.cell.load.warmup_s:
        return
    slices = [PlannedSlice("warm-up", "warm-up", tuple(each.as_warm_up() for each in trial.cell.generators))]
    place_inputs(trial.hosts, slices, trial.folder)
    (runs,) = run_slices(trial.hosts, slices, trial.folder, start_of_load(trial.load_hosts, slices))
    for run in runs:
        if run.failure is not None:
            with blame_ended_service(trial):
                raise HostError(run.failure, where=run.generator.host)
    trial.warmed_up_s = max(run.ended_s for run in runs) - min(run.started_s for run in runs)


def measure(block: Block) -> None:
    """Run the slices of all trials by one timetable, and sample the hosts before, during and after it.

    A window in one piece is one slice. Each server is probed once, in one of its own slices, so that the others stay
    idle, and not at a held rate.
    """
    programs = take_snapshot(block.hosts) if block.telemetry_options else None
    slices = _plan_slices(block)
    place_inputs(block.hosts, slices, block.folder)
    for trial in block.trials:
        start_traces(trial)
    if len(block.load_hosts) > 1:
        run_on_hosts(block.load_hosts, Host.compare_clocks)
    before = snapshot_hosts(block)
    used_before = cpu_s_of_services(block, before)
    block.began_s = start_of_load(block.used_hosts, slices)
    schedule_samples(block)
    with scheduled_calls(2 * len(block.trials)) as schedule_call:
        for trial in block.trials:
            if trial.profile is not None:
                # A single load process starts only when its host receives the command; no profile may start earlier.
                schedule_call(block.began_s + START_LEAD_S, partial(start_captures, trial, block.began_s))
            own = block.turns_of(trial)
            began_s, ended_s = own[len(own) // 2].window_s
            if math.isfinite(ended_s) and not trial.is_held:
                probed_s = began_s + PROBED_AT * (ended_s - began_s)
                schedule_call(block.began_s + probed_s, partial(probe_during, trial))
        runs = run_slices(block.hosts, slices, block.folder, block.began_s)
        after = snapshot_hosts(block)  # at once, because servers still work on abandoned requests
    used_after = cpu_s_of_services(block, after)
    others = () if programs is None else busiest_programs(programs, take_snapshot(block.hosts))
    for trial in block.trials:
        pairs = zip(block.turns, runs, strict=True)
        trial.runs = [of_turn for turn, of_turn in pairs if turn.cell_id == trial.cell.cell_id]
        trial.other_programs = others
        names = {each.service.name: block.telemetry_name(trial, each.service.name) for each in trial.running_services}
        trial.processes_before, trial.processes_after = (
            {service: found[name] for service, name in names.items() if name in found}
            for found in (before.processes, after.processes)
        )
        if block.slice_s is None and not trial.overran:
            common = {service: name for service, name in names.items() if name in used_before.keys() & used_after}
            trial.cpu_s |= {service: used_after[name] - used_before[name] for service, name in common.items()}


def _plan_slices(block: Block) -> list[PlannedSlice]:
    """Make the timetable of a block and return its slices; a window in one piece is a single slice.

    A window that ends after a number of requests has no end in the timetable.
    """
    cells = {trial.cell.cell_id: trial.cell for trial in block.trials}
    generators = {cell_id: cell.generators for cell_id, cell in cells.items()}
    slice_s = block.slice_s
    if slice_s is None:
        ((cell_id, cell),) = cells.items()
        duration_s = math.inf if cell.load.duration_s is None else cell.load.duration_s
        block.turns = (Turn(round=1, place=1, cell_id=cell_id, start_s=0.0, window_s=(0.0, duration_s)),)
    else:
        counts = {cell_id: slice_count(cell.load.duration_s or 0.0, slice_s) for cell_id, cell in cells.items()}
        pauses = {cell_id: cell.pauses for cell_id, cell in cells.items()}
        number = block.trials[0].planned_trial.block
        block.turns = tuple(plan_turns(counts, pauses, slice_s, block.seed, number))
        generators = {
            cell_id: tuple(each.as_slice(slice_s, pauses[cell_id].lead_s) for each in cell.generators)
            for cell_id, cell in cells.items()
        }
    names = {trial.cell.cell_id: f"cell{block.number_of(trial)}" for trial in block.trials}
    return [
        PlannedSlice(
            name=f"{names[turn.cell_id]}.{turn.round}",
            cell=names[turn.cell_id],
            generators=generators[turn.cell_id],
            at_s=turn.start_s,
            window_end_s=None if slice_s is None else turn.window_s[1],
        )
        for turn in block.turns
    ]


def cpu_s_of_services(block: Block, snapshot: HostsSnapshot) -> Mapping[str, float]:
    """Return the CPU time of services so far, by their names in the telemetry.

    Without telemetry, hosts are asked for it, to a hundredth of a second; in slices it is then unknown.
    """
    if block.watched_hosts or block.slice_s is not None:
        return snapshot.cpu_s
    cpu_s: dict[str, float] = {}
    for trial in block.trials:
        for host, services in trial.services_by_host():
            times = host.call(ProcessTable.cpu_times, [each.process.id for each in services])
            cpu_s |= {each.service.name: times[each.process.id].total_s for each in services}
    return cpu_s


def collect_load(block: Block) -> None:
    """Fetch the output of the load tools; add its files, slices and generator records to each trial."""
    runs = [run for trial in block.trials for of_slice in trial.runs for run in of_slice]
    fetched = dict(zip(map(id, runs), fetch_outputs(block.hosts, runs), strict=True))
    first_s = block.turns[0].window_s[0]
    for trial in block.trials:
        if block.slice_s is not None:
            trial.slices = tuple(
                SliceRow(
                    trial_id=trial.trial_id,
                    slice=turn.round,
                    place=turn.place,
                    started_s=turn.window_s[0] - first_s,
                    duration_s=block.slice_s,
                    late_s=max(run.late_s for run in of_slice),
                )
                for turn, of_slice in zip(block.turns_of(trial), trial.runs, strict=True)
            )
        trial.load_failures = tuple(
            HostError(failure if block.slice_s is None else f"slice {number}: {failure}", where=run.generator.host)
            for number, of_slice in enumerate(trial.runs, 1)
            for run in of_slice
            if (failure := failure_of(run, fetched[id(run)])) is not None
        )
        trial.has_hung = any(has_hung(run, fetched[id(run)]) for of_slice in trial.runs for run in of_slice)
        starts_s = [[run.started_s for run in of_slice] for of_slice in trial.runs]
        trial.start_spread_s = max(max(each) - min(each) for each in starts_s)
        if len(trial.load_hosts) > 1:
            trial.clock_uncertainty_s = 2 * max(host.clock.uncertainty_s for host in trial.load_hosts)
        for place, generator in enumerate(trial.cell.generators):
            own = [of_slice[place] for of_slice in trial.runs]
            started_s = 0.0 if block.slice_s is not None else own[0].started_s - min(starts_s[0])
            outputs = [fetched[id(run)] for run in own]
            _add_generator(trial, generator, own, outputs, slice_s=block.slice_s, started_s=started_s)


def require_load(trial: Trial) -> None:
    """Check that the output of the load tool can be used.

    Raises HostError with the first failure, or LoadToolHangError where a tool did not end by itself.
    """
    if trial.load_failures:
        more = f"; {len(trial.load_failures)} in all" if len(trial.load_failures) > 1 else ""
        error = LoadToolHangError if trial.has_hung else HostError
        first = trial.load_failures[0]
        with blame_ended_service(trial):
            raise error(f"{first.what}{more}", where=first.where)


def _add_generator(
    trial: Trial,
    generator: Generator,
    runs: Sequence[GeneratorRun],
    outputs: Sequence[Outputs],
    *,
    slice_s: float | None,
    started_s: float,
) -> None:
    """Add the files and the record of a generator; in slices its CPU time is an estimate that telemetry replaces."""
    files: dict[Literal[OutputKind, "slices"], str] = {}
    if slice_s is None:
        for kind, content in outputs[0].items():
            files[kind] = f"{generator.name}.{SUFFIXES[kind]}"
            trial.files[files[kind]] = content
    else:
        files["slices"] = f"slices.{generator.name}.tar"
        by_suffix = [{SUFFIXES[kind]: content for kind, content in output.items()} for output in outputs]
        trial.files[files["slices"]] = pack_slices(by_suffix)
    cpu_s = 0.0
    for run in runs:
        if run.ended is not None:
            share = min(1.0, (run.measured_s if slice_s is None else slice_s) / (run.ended_s - run.started_s))
            cpu_s += share * (run.ended.user_s + run.ended.system_s)
    record = GeneratorRecord(
        number=generator.number,
        host=generator.host,
        argv=runs[0].generator.argv,
        load=generator.load,
        files=files,
        started_s=started_s,
        wall_s=sum(run.measured_s if slice_s is None else slice_s for run in runs),
        late_s=max(run.late_s for run in runs),
        cpu_s=cpu_s,
        cpus=generator.cpus,
        threads=get_tool(generator.tool).threads(generator.load),
    )
    trial.generators = (*trial.generators, record)
