"""The traces of a trace trial: taken within its window by one tracer on each host, fetched after the load."""

from __future__ import annotations

import logging

from benchkit.errors import HostError, LostError
from benchkit.hosts.host import Host
from benchkit.hosts.tracers import TAIL_S, start_trace, tracer_of
from benchkit.models.trial import Tracer, TraceRecord
from benchkit.run.steps.state import TraceInProgress, Trial
from benchkit.scenario.trial_order import TracePass
from benchkit.services.deploy import RunningService

LEAST_S = 0.5
"""Shortest trace that is kept: attaching the probes took nearly the whole window of a shorter one."""

logger = logging.getLogger(__name__)


def start_traces(trial: Trial, started_s: float) -> None:
    """Start to trace the services; the window has started at `started_s` of `time.monotonic()`.

    A tracer that cannot start keeps the reason, and the trial continues.
    """
    if trial.trace is None:
        return
    ends_s = started_s + (trial.cell.load.duration_s or 0.0)
    for host, services in trial.services_by_host():
        wanted = [each for each in services if trial.trace.includes(each.service.name)]
        if not wanted:
            continue
        try:
            tracer = tracer_of(host)
        except HostError as error:
            trial.traces_in_progress.append(_failed(host, wanted, "bpftrace", error))
            continue
        for group in [wanted] if tracer == "bpftrace" else [[each] for each in wanted]:
            trial.traces_in_progress.append(_start(trial, trial.trace, group, tracer, ends_s))


def collect_traces(trial: Trial) -> None:
    """Wait for the tracers and fetch their sums."""
    window_s = min((run.started_s for of_slice in trial.runs for run in of_slice), default=0.0)
    until_s = max((run.measured_until_s for of_slice in trial.runs for run in of_slice), default=0.0)
    records = []
    for each in trial.traces_in_progress:
        record = each.record
        try:
            if isinstance(each.capture, HostError):
                raise each.capture
            trace = each.capture.finish()
        except LostError:
            raise
        except HostError as error:
            why_not = f"{error.what} ({error.why})" if error.why else error.what
            logger.info("%s: no trace of %s: %s", record.host, ", ".join(record.services), why_not)
            records.append(record.model_copy(update={"why_not": why_not}))
            continue
        traced_s = min(trace.ended_s, until_s) - trace.started_s
        if traced_s < LEAST_S or trace.ended_s > until_s:
            why_not = f"only {traced_s:.1f} s of the load were traced"
            records.append(record.model_copy(update={"why_not": why_not}))
            continue
        name = f"{record.services[0]}.{record.host}.trace.txt"
        trial.files[name] = trace.content
        times = {"started_s": trace.started_s - window_s, "ended_s": trace.ended_s - window_s}
        records.append(record.model_copy(update={"file": name, "cpu_s": trace.cpu_s, **times}))
    trial.traces = tuple(records)


def stop_traces(trial: Trial) -> None:
    """Stop the tracers that still run."""
    for each in trial.traces_in_progress:
        if not isinstance(each.capture, HostError):
            each.capture.stop()


def _start(
    trial: Trial, options: TracePass, services: list[RunningService], tracer: Tracer, ends_s: float
) -> TraceInProgress:
    host = trial.hosts[services[0].service.host]
    folder = trial.folder / f"trace.{services[0].service.name}"
    processes = [each.process for each in services]
    try:
        capture = start_trace(host, tracer, processes, after_s=options.settle_s, until_s=ends_s - TAIL_S, folder=folder)
    except LostError:
        raise
    except HostError as error:
        return _failed(host, services, tracer, error)
    return TraceInProgress(_record(host, services, tracer), capture)


def _failed(host: Host, services: list[RunningService], tracer: Tracer, error: HostError) -> TraceInProgress:
    return TraceInProgress(_record(host, services, tracer), error)


def _record(host: Host, services: list[RunningService], tracer: Tracer) -> TraceRecord:
    names = tuple(each.service.name for each in services)
    return TraceRecord(services=names, host=host.name, tracer=tracer, machine=host.facts.machine)
