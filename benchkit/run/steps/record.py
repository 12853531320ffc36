"""The record of a trial, which is stored with its files."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.models.trial import ProcessId, ServiceRecord, TrialRecord
from benchkit.run.steps.state import Trial
from benchkit.services.deploy import RunningService


def make_record(trial: Trial, wall_s: float) -> TrialRecord:
    """Return the record of a trial whose steps have run; `wall_s` is its share of the time that its block took."""
    if not trial.probes or not trial.generators:
        raise AssertionError("a step did not run")
    return TrialRecord(
        trial_id=trial.trial_id,
        cell_id=trial.cell.cell_id,
        levels=trial.cell.spec.levels,
        block=trial.planned_trial.block,
        position=trial.planned_trial.position,
        round=trial.planned_trial.round,
        attempt=trial.attempt,
        kind=trial.planned_trial.kind,
        started_at=trial.started_at,
        wall_s=wall_s,
        warmed_up_s=trial.warmed_up_s,
        load=trial.cell.load,
        target=trial.cell.target,
        protocol=trial.cell.generators[0].target.protocol,
        tls=trial.cell.generators[0].target.tls,
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
                has_own_quota=each.service.process.quota is not None and each.service.process.quota.is_own,
                pids_before=_lasting_processes(each, trial.processes_before),
                pids_after=_lasting_processes(each, trial.processes_after),
                escape=trial.escapes.get(each.service.name),
                folder_bytes=trial.folder_bytes.get(each.service.name, {}),
            )
            for each in trial.running_services
        ),
        generators=trial.generators,
        start_spread_s=trial.start_spread_s,
        clock_uncertainty_s=trial.clock_uncertainty_s,
        probe=trial.probes[0],
        other_probes=trial.probes[1:],
        probe_rounds=trial.probe_rounds,
        watched=trial.watch_records,
        profiles=trial.profiles,
        traces=trial.traces,
        external=tuple(service.name for service in trial.cell.spec.external if not service.watch),
        other_programs=trial.other_programs,
        killed=tuple(trial.killed),
        noise=trial.noise_record,
        capacity=trial.capacity,
        slices=trial.slices,
    )


def _lasting_processes(
    running: RunningService, processes: Mapping[str, tuple[ProcessId, ...]]
) -> tuple[ProcessId, ...]:
    """Return the processes that must be the same after the window: all, or the main one of a service that forks."""
    of_service = processes.get(running.service.name, ())
    if running.service.forks_per_request:
        return tuple(each for each in of_service if each[0] == running.process.pid)
    return of_service
