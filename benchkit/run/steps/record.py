"""What is kept of a trial that was carried out, beside its files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from benchkit.load.generators.execution import GeneratorRun
from benchkit.models.trial import ProcessId, ServiceRecord, TrialRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services.deploy import RunningService


def make_record(trial: Trial) -> TrialRecord:
    """What is kept of a trial that was carried out, beside its files."""
    if trial.probe is None or not trial.generators:
        raise AssertionError("a step was left out")
    return TrialRecord(
        trial_id=trial.trial_id,
        cell_id=trial.cell.cell_id,
        levels=trial.cell.cell.levels,
        block=trial.planned_trial.block,
        position=trial.planned_trial.position,
        round=trial.planned_trial.round,
        attempt=trial.attempt,
        kind=trial.planned_trial.kind,
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
                cpus=each.service.process.cpus,
                parallelism=each.service.parallelism,
                quota=each.service.process.quota.cpus if each.service.process.quota else None,
                pids_before=_lasting(each, trial.processes_before),
                pids_after=_lasting(each, trial.processes_after),
                folder_bytes=trial.folder_bytes.get(each.service.name, {}),
            )
            for each in trial.running
        ),
        generators=trial.generators,
        start_spread_s=max(each.started_s for each in trial.generators),
        clock_uncertainty_s=_uncertainty_s(trial.generator_runs),
        probe=trial.probe,
        watched=trial.watches,
        profiles=trial.profiles,
    )


def _lasting(running: RunningService, processes: Mapping[str, tuple[ProcessId, ...]]) -> tuple[ProcessId, ...]:
    """The processes of a service that are to be the same after the window: all, or the first of one that forks."""
    found = processes.get(running.service.name, ())
    return (
        tuple(each for each in found if each[0] == running.process.pid) if running.service.forks_per_request else found
    )


def _uncertainty_s(runs: Sequence[GeneratorRun]) -> float:
    """How far the starts of generators on different hosts may be off, one against the other; 0 on one host."""
    by_host = {each.generator.host: each.clock_uncertainty_s for each in runs}
    return 2 * max(by_host.values()) if len(by_host) > 1 else 0.0
