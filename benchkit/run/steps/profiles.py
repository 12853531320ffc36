"""The profiles and traces of a trial: started at its load, fetched after it."""

from __future__ import annotations

import logging
import time
from pathlib import PurePosixPath

from benchkit.agent.undo import Undo
from benchkit.errors import HostError, LostError
from benchkit.hosts import profilers
from benchkit.hosts.host import Host
from benchkit.hosts.profilers import (
    AFTER_S,
    ATTACH_S,
    start_perf,
    start_pprof,
    start_trace,
)
from benchkit.models.profile import Profiler
from benchkit.models.trial import ProfileRecord, TraceRecord
from benchkit.run.steps.state import ProfileCapture, TraceInProgress, Trial
from benchkit.scenario.trial_order import ProfilePass
from benchkit.services.deploy import RunningService, socket_of
from benchkit.services.service import PPROF_PATH, Service, perf_map_folder, profiler_of

logger = logging.getLogger(__name__)

TAIL_S: dict[Profiler, float] = {"pprof": 0.3, "perf": 0.1}
"""Time from the end of a capture to the end of the window; Go needs up to 0.2 s to collect its last samples."""

GO_NOTE, GO_NOTE_BYTES = b"\x04\0\0\0Go\0\0", 32 << 10
"""Start of the ELF note with a Go program's build id, and the bytes from the start of the file in which it is found."""
_SUFFIX: dict[Profiler, str] = {"pprof": "pb.gz", "perf": "perf.txt.gz"}


def expect_perf_maps(trial: Trial) -> None:
    """Make the folders in which services write maps for perf; hosts remove them however the trial ends."""
    for service in _perf_map_services(trial):
        trial.hosts[service.host].call(Undo.expect_perf_maps, perf_map_folder(service))


def check_perf_maps(trial: Trial) -> None:
    """Check that the services have written the maps that perf needs; a profile without maps keeps the reason."""
    for running in trial.running_services if trial.profile is not None else ():
        service = running.service
        if service.perf_map_launcher is not None:
            host = trial.hosts[service.host]
            try:
                profilers.require_perf_maps(host, host.processes.members(running.process))
            except LostError:
                raise
            except HostError as error:
                trial.perf_map_errors[service.name] = error


def start_captures(trial: Trial, started_s: float) -> None:
    """Start the profilers of the services; the window started at `started_s` of `time.monotonic()`.

    A capture that cannot start keeps the reason, and the trial continues.
    """
    if trial.profile is None:
        return
    ends_s = started_s + (trial.cell.load.duration_s or 0.0)
    for running in trial.running_services:
        if trial.profile.includes(running.service.name):
            trial.captures.append(_start_capture(trial, trial.profile, running, ends_s))


def collect_profiles(trial: Trial) -> None:
    """Wait for the captures and fetch their profiles."""
    window_s = min((run.started_s for of_slice in trial.runs for run in of_slice), default=0.0)
    records = []
    for capture in trial.captures:
        service = capture.running.service
        profile_record = ProfileRecord(service=service.name, host=service.host, profiler=capture.profiler)
        try:
            if isinstance(capture.profile, HostError):
                raise capture.profile
            profile = capture.profile.finish()
        except LostError:
            raise
        except HostError as error:
            why_not = f"{error.what} ({error.why})" if error.why else error.what
            logger.info("%s: no profile of %s: %s", service.host, service.name, why_not)
            records.append(profile_record.model_copy(update={"why_not": why_not}))
            continue
        name = f"{service.name}.{service.host}.{_SUFFIX[capture.profiler]}"
        trial.files[name] = profile.content
        times = {"started_s": profile.started_s - window_s, "ended_s": profile.ended_s - window_s}
        records.append(profile_record.model_copy(update={"file": name, "cpu_s": profile.cpu_s, **times}))
    trial.profiles = tuple(records)


def stop_captures(trial: Trial) -> None:
    """Stop the profilers, and remove the maps that the services, which have ended, wrote for perf."""
    for capture in trial.captures:
        if not isinstance(capture.profile, HostError):
            capture.profile.stop()
    for service in _perf_map_services(trial):
        profilers.remove_perf_maps(trial.hosts[service.host], perf_map_folder(service))


def _perf_map_services(trial: Trial) -> list[Service]:
    return [
        service
        for service in trial.cell.services
        if trial.profile is not None and service.perf_map_launcher is not None
    ]


def _is_go_program(host: Host, running: RunningService) -> bool:
    """Return True for a program built by Go, which has frame pointers and no unwind tables for perf."""
    for pid in host.processes.members(running.process):
        program = PurePosixPath("/", "proc", str(pid), "exe")  # of the host, not of the controller
        start = host.processes.run(["head", "-c", str(GO_NOTE_BYTES), str(program)])
        if GO_NOTE in start.stdout:
            return True
    return False


def _start_capture(trial: Trial, options: ProfilePass, running: RunningService, ends_s: float) -> ProfileCapture:
    service, host = running.service, trial.hosts[running.service.host]
    profiler = profiler_of(service)
    try:
        if service.name in trial.perf_map_errors:
            raise trial.perf_map_errors[service.name]
        duration_s = ends_s - TAIL_S[profiler] - time.monotonic() - options.settle_s
        if service.admin is not None and profiler == "pprof":
            seconds = max(1, int(duration_s))  # it takes whole seconds only
            socket = socket_of(service.admin.endpoint)
            pprof = start_pprof(host, socket, PPROF_PATH, after_s=options.settle_s, seconds=seconds)
            return ProfileCapture(running, profiler, pprof)
        # Code compiled at run time has only frame pointers; programs of distributions have only unwind tables.
        has_frame_pointers = service.perf_map_launcher is not None or _is_go_program(host, running)
        perf = start_perf(
            host,
            running.process,
            frequency_hz=options.frequency_hz,
            call_graph="fp" if has_frame_pointers else "dwarf",
            after_s=options.settle_s,
            seconds=duration_s,
            folder=trial.folder / f"profile.{service.name}",
        )
        return ProfileCapture(running, profiler, perf)
    except LostError:
        raise
    except HostError as error:
        return ProfileCapture(running, profiler, error)


def start_traces(trial: Trial) -> None:
    """Start to trace the services, and wait until the tracers are attached, so that the whole load is traced.

    A tracer that cannot start keeps the reason, and the trial continues.
    """
    if trial.trace is None:
        return
    load_s = time.monotonic() + ATTACH_S
    for host, services in trial.services_by_host():
        wanted = [each for each in services if trial.trace.includes(each.service.name)]
        if wanted:
            trial.traces_in_progress.append(_trace_services(trial, host, wanted, load_s))
    if any(not isinstance(each.capture, HostError) for each in trial.traces_in_progress):
        time.sleep(max(0.0, load_s - time.monotonic()))


def collect_traces(trial: Trial) -> None:
    """Wait for the tracers and fetch their totals, which cover the whole load."""
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


def _trace_services(trial: Trial, host: Host, services: list[RunningService], load_s: float) -> TraceInProgress:
    names = tuple(each.service.name for each in services)
    record = TraceRecord(services=names, host=host.name, machine=host.facts.machine)
    folder = trial.folder / f"trace.{names[0]}"
    until_s = load_s + (trial.cell.load.duration_s or 0.0) + AFTER_S
    try:
        processes = [each.process for each in services]
        listened = [each.service.endpoint.port for each in services]
        listened += [each.service.container.port for each in services if each.service.container is not None]
        own_ports = [port for port in listened if port is not None]
        capture = start_trace(host, processes, own_ports, load_s=load_s, until_s=until_s, folder=folder)
    except LostError:
        raise
    except HostError as error:
        return TraceInProgress(record, error)
    return TraceInProgress(record, capture)
