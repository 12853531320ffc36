"""The traces of a trace trial: their probes are attached before its load, and their sums fetched after it."""

from __future__ import annotations

import logging
import time

from benchkit.errors import HostError, LostError
from benchkit.hosts.host import Host
from benchkit.hosts.tracers import AFTER_S, ATTACH_COUNTERS_S, ATTACH_S, require_counters, start_trace, tracer_of
from benchkit.models.trial import Tracer, TraceRecord
from benchkit.run.steps.state import TraceInProgress, Trial
from benchkit.services.deploy import RunningService

logger = logging.getLogger(__name__)


def start_traces(trial: Trial) -> None:
    """Start to trace the services, and wait until the probes are attached, so that the whole load is traced.

    A profile trial has hardware counters instead, where its hosts have some. A tracer that cannot start keeps the
    reason, and the trial continues.
    """
    options = trial.trace or trial.profile
    if options is None:
        return
    load_s = time.monotonic() + (ATTACH_S if trial.trace else ATTACH_COUNTERS_S)
    for host, services in trial.services_by_host():
        wanted = [each for each in services if options.includes(each.service.name)]
        if not wanted:
            continue
        tracer: Tracer = "bpftrace" if trial.trace else "pmu"
        try:
            if trial.trace:
                tracer = tracer_of(host)
            else:
                require_counters(host)
        except LostError:
            raise
        except HostError as error:
            trial.traces_in_progress.append(TraceInProgress(_record(host, wanted, tracer), error))
            continue
        for group in [wanted] if tracer == "bpftrace" else [[each] for each in wanted]:
            trial.traces_in_progress.append(_start(trial, group, tracer, load_s))
    if any(not isinstance(each.capture, HostError) for each in trial.traces_in_progress):
        time.sleep(max(0.0, load_s - time.monotonic()))


def collect_traces(trial: Trial) -> None:
    """Wait for the tracers and fetch their sums, which cover the whole load and all of its requests."""
    window_s = min((run.started_s for of_slice in trial.runs for run in of_slice), default=0.0)
    ended_s = max((run.measured_until_s for of_slice in trial.runs for run in of_slice), default=0.0)
    records = []
    for each in trial.traces_in_progress:
        record = each.record
        try:
            if isinstance(each.capture, HostError):
                raise each.capture
            trace = each.capture.finish(ended_s)
        except LostError:
            raise
        except HostError as error:
            why_not = f"{error.what} ({error.why})" if error.why else error.what
            logger.info("%s: no trace of %s: %s", record.host, ", ".join(record.services), why_not)
            records.append(record.model_copy(update={"why_not": why_not}))
            continue
        name = f"{record.services[0]}.{record.host}.trace.txt"
        trial.files[name] = trace.content
        times = {"started_s": 0.0, "ended_s": ended_s - window_s}
        records.append(record.model_copy(update={"file": name, "cpu_s": trace.cpu_s, **times}))
    trial.traces = tuple(records)


def stop_traces(trial: Trial) -> None:
    """Stop the tracers that still run."""
    for each in trial.traces_in_progress:
        if not isinstance(each.capture, HostError):
            each.capture.stop()


def _start(trial: Trial, services: list[RunningService], tracer: Tracer, load_s: float) -> TraceInProgress:
    host = trial.hosts[services[0].service.host]
    folder = trial.folder / f"trace.{services[0].service.name}"
    processes = [each.process for each in services]
    try:
        until_s = load_s + (trial.cell.load.duration_s or 0.0) + AFTER_S
        capture = start_trace(host, tracer, processes, load_s=load_s, until_s=until_s, folder=folder)
    except LostError:
        raise
    except HostError as error:
        return TraceInProgress(_record(host, services, tracer), error)
    return TraceInProgress(_record(host, services, tracer), capture)


def _record(host: Host, services: list[RunningService], tracer: Tracer) -> TraceRecord:
    names = tuple(each.service.name for each in services)
    return TraceRecord(services=names, host=host.name, tracer=tracer, machine=host.facts.machine)
