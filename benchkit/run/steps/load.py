"""The load of a trial: warm-up, measured window, and the output of the tools."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.hosts.other_programs import busiest_programs, take_snapshot
from benchkit.loadtools.generators.execution import (
    GeneratorProcess,
    GeneratorRun,
    OutputKind,
    fetch_outputs,
    run_generators,
)
from benchkit.loadtools.registry import get_tool
from benchkit.models.trial import GeneratorRecord
from benchkit.run.steps.probe import MiddleProbes
from benchkit.run.steps.profiles import start_captures
from benchkit.run.steps.services import blame_ended_service
from benchkit.run.steps.telemetry_steps import snapshot_hosts, watch_generators
from benchkit.run.steps.trial_state import Trial, start_uncertainty_s


def warm_up(trial: Trial) -> None:
    """Run the same load for the warm-up time, without keeping its results."""
    if trial.cell.load.warmup_s:
        generators = [each.as_warm_up() for each in trial.cell.generators]
        with blame_ended_service(trial):
            runs = run_generators(trial.hosts, generators, trial.folder / "warm-up")
        trial.warmed_up_s = max(run.ended_s for run in runs) - min(run.started_s for run in runs)


def measure(trial: Trial) -> None:
    """Run the load, and measure the CPU time that the services take under it; probe them in its middle."""
    duration_s = trial.cell.load.duration_s

    def on_start(processes: Sequence[GeneratorProcess]) -> None:
        started_s = min(process.started_s for process in processes)
        watch_generators(trial, processes)
        start_captures(trial, started_s)
        if duration_s is not None:
            probes.add(trial, started_s + duration_s / 2)

    programs = take_snapshot(trial.hosts) if trial.telemetry_options else None
    before = _cpu_s_of_services(trial)
    trial.processes_before = snapshot_hosts(trial)
    with blame_ended_service(trial), MiddleProbes(1) as probes:
        trial.generator_runs = run_generators(trial.hosts, trial.cell.generators, trial.folder / "measure", on_start)
    trial.processes_after = snapshot_hosts(trial)
    after = _cpu_s_of_services(trial)
    if not any(run.overran for run in trial.generator_runs):  # else the CPU time is that of a longer time
        trial.cpu_s = {name: after[name] - before[name] for name in after}
    if programs is not None:
        trial.other_programs = busiest_programs(programs, take_snapshot(trial.hosts))


def collect_load(trial: Trial) -> None:
    """Fetch the output of the load tools."""
    outputs = fetch_outputs(trial.hosts, trial.generator_runs)
    starts_s = [run.started_s for run in trial.generator_runs]
    first_s = min(starts_s)
    trial.start_spread_s = max(starts_s) - first_s
    trial.clock_uncertainty_s = start_uncertainty_s(trial.load_hosts)
    for run in trial.generator_runs:
        contents = outputs[run.generator.number]
        names = {kind: run.files[kind].name for kind in contents}
        trial.files |= {names[kind]: content for kind, content in contents.items()}
        trial.generators += (_generator_record(run, names, run.started_s - first_s),)


def _generator_record(run: GeneratorRun, names: dict[OutputKind, str], started_s: float) -> GeneratorRecord:
    wall_s = run.measured_until_s - run.started_s
    share = wall_s / (run.ended_s - run.started_s)
    return GeneratorRecord(
        overruns=int(run.overran),
        number=run.generator.number,
        host=run.generator.host,
        argv=run.generator.argv,
        load=run.generator.load,
        files=names,
        started_s=started_s,
        wall_s=wall_s,
        late_s=run.late_s,
        cpu_s=share * (run.ended.user_s + run.ended.system_s),
        cpus=run.generator.cpus,
        threads=get_tool(run.generator.tool).threads(run.generator.load),
    )


def _cpu_s_of_services(trial: Trial) -> dict[str, float]:
    cpu_s: dict[str, float] = {}
    for host, services in trial.services_by_host():
        times = host.processes.cpu_times(each.process for each in services)
        cpu_s |= {each.service.name: times[each.process.id].total_s for each in services}
    return cpu_s
