"""The load of a block: warm-up, measured window or slices, and the output of the load tools."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from benchkit.errors import HostError, LoadToolHangError
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.other_programs import busiest_programs, take_snapshot
from benchkit.loadtools.generators.execution import (
    SUFFIXES,
    GeneratorProcess,
    GeneratorRun,
    OutputKind,
    PlannedSlice,
    place_inputs,
    run_generators,
    run_slices,
    start_lead_s,
)
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.generators.outputs import Outputs, failure_of, fetch_outputs, has_hung
from benchkit.loadtools.registry import get_tool
from benchkit.models.trial import GeneratorRecord, SliceRecord
from benchkit.plan.slice_timetable import plan_turns, slice_count
from benchkit.run.steps.probe import MiddleProbes
from benchkit.run.steps.profiles import start_captures
from benchkit.run.steps.services import blame_ended_service
from benchkit.run.steps.state import Block, Trial
from benchkit.run.steps.telemetry import schedule_slices, snapshot_hosts, watch_generators
from benchkit.run.steps.traces import start_traces
from benchkit.store.trial_tables import pack_slices

PROBED_AT = 0.4
"""Share of a window, or of the middle slice, at which its server is probed: apart from when connections are counted."""
MESSAGE_S = 0.001
"""Time to send one planned start to its host, in the estimate of when the first can be."""


def make_shared_folder(block: Block) -> None:
    """Make the folder of a sliced block on all hosts; it is removed there even if the controller is lost."""

    def make(host: Host) -> None:
        block.folder_hosts.append(host)
        host.files.mkdir_temporary(block.folder)

    if block.slice_s is not None:
        run_on_hosts(block.used_hosts, make)


def remove_shared_folder(block: Block) -> None:
    """Remove the folder of a sliced block from its hosts. Raises HostError."""
    run_on_hosts(block.folder_hosts, lambda host: host.files.remove(block.folder))


def warm_up(trial: Trial) -> None:
    """Run the same load for the warm-up time, without keeping its results."""
    if trial.cell.load.warmup_s:
        generators = [each.as_warm_up() for each in trial.cell.generators]
        with blame_ended_service(trial):
            runs = run_generators(trial.hosts, generators, trial.folder / "warm-up")
        trial.warmed_up_s = max(run.ended_s for run in runs) - min(run.started_s for run in runs)


def measure(block: Block) -> None:
    """Run the load, with hosts and servers observed around it; each server is probed once in its middle."""
    programs = take_snapshot(block.hosts) if block.telemetry_options else None
    before = snapshot_hosts(block)
    with MiddleProbes(len(block.trials)) as probes:
        if block.slice_s is None:
            _measure_window(block, probes)
        else:
            _measure_slices(block, block.slice_s, probes)
        after = snapshot_hosts(block)  # at once: servers still work on requests that the load tool has given up
    others = () if programs is None else busiest_programs(programs, take_snapshot(block.hosts))
    for trial in block.trials:
        trial.other_programs = others
        names = {each.service.name: block.telemetry_name(trial, each.service.name) for each in trial.running_services}
        trial.processes_before, trial.processes_after = (
            {service: found[name] for service, name in names.items() if name in found}
            for found in (before.processes, after.processes)
        )
        if block.slice_s is None and not trial.overran:
            common = {service: name for service, name in names.items() if name in before.cpu_s.keys() & after.cpu_s}
            trial.cpu_s |= {service: after.cpu_s[name] - before.cpu_s[name] for service, name in common.items()}
        escapes = {**before.escapes, **after.escapes}
        trial.escapes = {service: escapes[name] for service, name in names.items() if name in escapes}


def _measure_window(block: Block, probes: MiddleProbes) -> None:
    """Run the load of the only trial in one piece.

    Without telemetry, measure the CPU time that its services take under it, to the hundredth of a second.
    """
    (trial,) = block.trials
    duration_s = trial.cell.load.duration_s

    def on_start(processes: Sequence[GeneratorProcess]) -> None:
        started_s = min(process.started_s for process in processes)
        watch_generators(block, processes)
        start_captures(trial, started_s)
        if duration_s is not None:
            probes.add(trial, started_s + PROBED_AT * duration_s)

    start_traces(trial)
    before = {} if block.watched_hosts else _cpu_s_of_services(trial)
    with blame_ended_service(trial):
        trial.runs = [list(run_generators(trial.hosts, trial.cell.generators, trial.folder / "measure", on_start))]
    if before and not trial.overran:
        after = _cpu_s_of_services(trial)
        trial.cpu_s = {name: after[name] - before[name] for name in after}


def _cpu_s_of_services(trial: Trial) -> dict[str, float]:
    cpu_s: dict[str, float] = {}
    for host, services in trial.services_by_host():
        times = host.processes.cpu_times(each.process for each in services)
        cpu_s |= {each.service.name: times[each.process.id].total_s for each in services}
    return cpu_s


def _measure_slices(block: Block, slice_s: float, probes: MiddleProbes) -> None:
    """Run the slices of all trials by one timetable, sampling the hosts at the edges of each.

    Each server is probed in a slice of its own, so that the others stay idle.
    """
    cells = {trial.cell.cell_id: trial.cell for trial in block.trials}
    counts = {cell_id: slice_count(cell.load.duration_s or 0.0, slice_s) for cell_id, cell in cells.items()}
    pauses = {cell_id: cell.pauses for cell_id, cell in cells.items()}
    number = block.trials[0].planned_trial.block
    block.turns = tuple(plan_turns(counts, pauses, slice_s, block.seed, number))
    generators = {
        cell_id: tuple(each.as_slice(slice_s, cell.pauses.lead_s) for each in cell.generators)
        for cell_id, cell in cells.items()
    }
    names = {trial.cell.cell_id: f"cell{block.number_of(trial)}" for trial in block.trials}

    slices = [
        PlannedSlice(
            name=f"{names[turn.cell_id]}.{turn.round}",
            cell=names[turn.cell_id],
            generators=generators[turn.cell_id],
            at_s=turn.start_s,
            window_end_s=turn.window_s[1],
        )
        for turn in block.turns
    ]
    placed = [each for planned in slices for each in planned.placed(block.folder)]
    load_hosts = [block.hosts[name] for name in dict.fromkeys(each.generator.host for each in placed)]
    run_on_hosts(
        load_hosts, lambda host: place_inputs(host, [each for each in placed if each.generator.host == host.name])
    )
    block.began_s = time.monotonic() + start_lead_s(block.used_hosts, MESSAGE_S * len(block.turns))
    schedule_slices(block)
    for trial in block.trials:
        own = block.turns_of(trial)
        began_s, ended_s = own[len(own) // 2].window_s
        probes.add(trial, block.began_s + began_s + PROBED_AT * (ended_s - began_s))
    runs = run_slices(block.hosts, slices, block.folder, block.began_s)
    for trial in block.trials:
        pairs = zip(block.turns, runs, strict=True)
        trial.runs = [of_turn for turn, of_turn in pairs if turn.cell_id == trial.cell.cell_id]


def collect_load(block: Block) -> None:
    """Fetch the output of the load tools; give each trial its files, its slices and the records of its generators."""
    runs = [run for trial in block.trials for of_slice in trial.runs for run in of_slice]
    fetched = dict(zip(map(id, runs), fetch_outputs(block.hosts, runs), strict=True))
    first_s = block.turns[0].window_s[0] if block.turns else 0.0
    for trial in block.trials:
        if block.slice_s is not None:
            trial.slices = tuple(
                SliceRecord(
                    number=turn.round,
                    place=turn.place,
                    started_s=turn.window_s[0] - first_s,
                    duration_s=block.slice_s,
                    late_s=max(run.late_s or 0.0 for run in of_slice),
                )
                for turn, of_slice in zip(block.turns_of(trial), trial.runs, strict=True)
            )
        trial.load_failures = tuple(
            failure if block.slice_s is None else f"slice {number}: {failure}"
            for number, of_slice in enumerate(trial.runs, 1)
            for run in of_slice
            if (failure := failure_of(run, fetched[id(run)])) is not None
        )
        trial.has_hung = any(has_hung(run, fetched[id(run)]) for of_slice in trial.runs for run in of_slice)
        starts_s = [[run.started_s for run in of_slice] for of_slice in trial.runs]
        trial.start_spread_s = max(max(each) - min(each) for each in starts_s)
        trial.clock_uncertainty_s = _start_uncertainty_s(trial.load_hosts)
        for place, generator in enumerate(trial.cell.generators):
            own = [of_slice[place] for of_slice in trial.runs]
            started_s = 0.0 if block.slice_s is not None else own[0].started_s - min(starts_s[0])
            outputs = [fetched[id(run)] for run in own]
            _add_generator(trial, generator, own, outputs, slice_s=block.slice_s, started_s=started_s)


def require_load(trial: Trial) -> None:
    """Check that the output of the load tool can be used.

    Raises HostError naming the first reason why not: LoadToolHangError where a tool did not end by itself.
    """
    if trial.load_failures:
        more = f"; {len(trial.load_failures)} in all" if len(trial.load_failures) > 1 else ""
        error = LoadToolHangError if trial.has_hung else HostError
        raise error(f"{trial.load_failures[0]}{more}", where=trial.cell.generators[0].host)


def _add_generator(
    trial: Trial,
    generator: Generator,
    runs: Sequence[GeneratorRun],
    outputs: Sequence[Outputs],
    *,
    slice_s: float | None,
    started_s: float,
) -> None:
    """Add the files and the record of a generator; with slices, its CPU time is estimated until telemetry is read."""
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
    lates_s = [run.late_s for run in runs if run.late_s is not None]
    record = GeneratorRecord(
        overruns=sum(run.overran for run in runs),
        number=generator.number,
        host=generator.host,
        argv=runs[0].generator.argv,
        load=generator.load,
        files=files,
        started_s=started_s,
        wall_s=sum(run.measured_s if slice_s is None else slice_s for run in runs),
        late_s=max(lates_s, default=None),
        cpu_s=cpu_s,
        cpus=generator.cpus,
        threads=get_tool(generator.tool).threads(generator.load),
    )
    trial.generators = (*trial.generators, record)


def _start_uncertainty_s(hosts: Sequence[Host]) -> float:
    """Return the largest error of the time between starts on two of these hosts, in seconds; 0 for one host."""
    return 2 * max(host.clock.uncertainty_s for host in hosts) if len(hosts) > 1 else 0.0
