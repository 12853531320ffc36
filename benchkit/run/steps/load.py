"""The load of a trial: warm-up, measured window, and what the tools left."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchkit.load.generators.drive import drive, fetch
from benchkit.load.generators.generator import warming_up
from benchkit.load.generators.group import GeneratorProcess, GeneratorRun, Left
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
        generators = [warming_up(each, trial.cell.target) for each in trial.cell.generators]
        with blaming_services(trial):
            drive(trial.hosts, generators, trial.folder / "warm-up")
        trial.warmed_up_s = time.monotonic() - began


def measure(trial: Trial) -> None:
    """Put the load on, and note the CPU time that the services took under it."""

    def begun(members: Sequence[GeneratorProcess]) -> None:
        watch_generators(trial, members)
        begin_profiles(trial, min(member.started_s for member in members))

    before = _cpu(trial)
    trial.processes_before = look(trial)
    with blaming_services(trial):
        trial.drove = drive(trial.hosts, trial.cell.generators, trial.folder / "measure", begun)
    trial.processes_after = look(trial)
    after = _cpu(trial)
    trial.cpu_s = {name: after[name] - before[name] for name in after}


def collect_load(trial: Trial) -> None:
    """Bring what the load tools wrote to the controller."""
    left = fetch(trial.hosts, trial.drove)
    first_s = min(each.started_s for each in trial.drove)
    for drove in trial.drove:
        contents = left[drove.generator.number]
        names = {kind: drove.files[kind].name for kind in contents}
        trial.files |= {names[kind]: content for kind, content in contents.items()}
        trial.generators += (_generator_record(drove, names, drove.started_s - first_s),)


def _generator_record(drove: GeneratorRun, names: dict[Left, str], started_s: float) -> GeneratorRecord:
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
        cpus=drove.generator.cpus,
        threads=get_tool(drove.generator.tool).threads(drove.generator.load),
    )


def _cpu(trial: Trial) -> dict[str, float]:
    used: dict[str, float] = {}
    for host, services in trial.by_host():
        spent = host.processes.cpu(each.process for each in services)
        used |= {each.service.name: spent[each.process.id].total_s for each in services}
    return used
