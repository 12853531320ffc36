"""The load of a trial: warm-up, measured window, and what the tools left."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchkit.load.generators.execution import (
    GeneratorProcess,
    GeneratorRun,
    OutputKind,
    fetch_outputs,
    run_generators,
)
from benchkit.load.tools.registry import get_tool
from benchkit.models.trial import GeneratorRecord
from benchkit.run.steps.profiles import begin_profiles
from benchkit.run.steps.services import blaming_services
from benchkit.run.steps.trial_state import Trial
from benchkit.run.steps.watch import look, watch_generators


def warm_up(trial: Trial) -> None:
    """Put the same load on for a while, and throw its results away."""
    began = time.monotonic()
    if trial.cell.load.warmup_s:
        generators = [each.as_warm_up(trial.cell.target) for each in trial.cell.generators]
        with blaming_services(trial):
            run_generators(trial.hosts, generators, trial.folder / "warm-up")
        trial.warmed_up_s = time.monotonic() - began


def measure(trial: Trial) -> None:
    """Put the load on, and note the CPU time that the services took under it."""

    def on_start(processes: Sequence[GeneratorProcess]) -> None:
        watch_generators(trial, processes)
        begin_profiles(trial, min(process.started_s for process in processes))

    before = _cpu(trial)
    trial.processes_before = look(trial)
    with blaming_services(trial):
        trial.generator_runs = run_generators(trial.hosts, trial.cell.generators, trial.folder / "measure", on_start)
    trial.processes_after = look(trial)
    after = _cpu(trial)
    trial.cpu_s = {name: after[name] - before[name] for name in after}


def collect_load(trial: Trial) -> None:
    """Bring what the load tools wrote to the controller."""
    outputs = fetch_outputs(trial.hosts, trial.generator_runs)
    first_s = min(run.started_s for run in trial.generator_runs)
    for run in trial.generator_runs:
        contents = outputs[run.generator.number]
        names = {kind: run.files[kind].name for kind in contents}
        trial.files |= {names[kind]: content for kind, content in contents.items()}
        trial.generators += (_generator_record(run, names, run.started_s - first_s),)


def _generator_record(run: GeneratorRun, names: dict[OutputKind, str], started_s: float) -> GeneratorRecord:
    return GeneratorRecord(
        number=run.generator.number,
        host=run.generator.host,
        argv=run.generator.argv,
        load=run.generator.load,
        files=names,
        started_s=started_s,
        wall_s=run.ended_s - run.started_s,
        late_s=run.late_s,
        cpu_s=run.ended.user_s + run.ended.system_s,
        cpus=run.generator.cpus,
        threads=get_tool(run.generator.tool).threads(run.generator.load),
    )


def _cpu(trial: Trial) -> dict[str, float]:
    used: dict[str, float] = {}
    for host, services in trial.by_host():
        spent = host.processes.cpu(each.process for each in services)
        used |= {each.service.name: spent[each.process.id].total_s for each in services}
    return used
