"""The profiles of a trial that is there to be profiled: taken within its window, read when the load is over."""

from __future__ import annotations

import time

from benchkit.errors import HostError, LostError
from benchkit.hosts.profilers import ask, drop_maps, expect_maps, members, record
from benchkit.models.profile import Profiler
from benchkit.models.trial import ProfileRecord
from benchkit.run.steps.trial_state import ProfileCapture, Trial
from benchkit.scenario.profile_pass import ProfilePass
from benchkit.services.deploy import RunningService, socket_of
from benchkit.services.profilers import PPROF_PATH, call_graph_of, profiler_of, writes_perf_map

TAIL_S: dict[Profiler, float] = {"pprof": 0.3, "perf": 0.1}
"""So long before the end of the window profiling is over: Go's takes up to 0.2 s to fetch its last samples."""

_SUFFIX: dict[Profiler, str] = {"pprof": "pb.gz", "perf": "perf.txt.gz"}
"""How the files of profiles are called; both kinds are gzipped."""


def begin_profiles(trial: Trial, started_s: float) -> None:
    """Begin to take profiles; the window has begun at `started_s` of `time.monotonic()`.

    What cannot be taken is noted with the reason, and the trial goes on.
    """
    if trial.profile is None:
        return
    ends_s = started_s + (trial.cell.load.duration_s or 0.0)
    for running in trial.running:
        if trial.profile.includes(running.service.name):
            trial.takings.append(_begun(trial, trial.profile, running, ends_s))


def collect_profiles(trial: Trial) -> None:
    """Wait for the profiles, and bring them to the controller."""
    window_s = min((each.started_s for each in trial.generator_runs), default=0.0)
    records = []
    for taking in trial.takings:
        service = taking.running.service
        found = ProfileRecord(service=service.name, host=service.host, profiler=taking.profiler)
        try:
            if isinstance(taking.under_way, HostError):
                raise taking.under_way
            taken = taking.under_way.finish()
        except LostError:
            raise
        except HostError as error:
            why_not = f"{error.what} ({error.why})" if error.why else error.what
            records.append(found.model_copy(update={"why_not": why_not}))
            continue
        name = f"{service.name}.{service.host}.{_SUFFIX[taking.profiler]}"
        trial.files[name] = taken.content
        times = {"started_s": taken.started_s - window_s, "ended_s": taken.ended_s - window_s}
        records.append(found.model_copy(update={"file": name, "cpu_s": taken.cpu_s, **times}))
    trial.profiles = tuple(records)


def drop_profiles(trial: Trial) -> None:
    """End what takes profiles, and clear away what the services left for it; after they have ended."""
    for taking in trial.takings:
        if not isinstance(taking.under_way, HostError):
            taking.under_way.stop()
        if taking.mapped:
            drop_maps(trial.hosts[taking.running.service.host], taking.mapped)


def _begun(trial: Trial, wanted: ProfilePass, running: RunningService, ends_s: float) -> ProfileCapture:
    service, host = running.service, trial.hosts[running.service.host]
    profiler = profiler_of(service)
    mapped: tuple[int, ...] = ()
    try:
        if writes_perf_map(service):
            mapped = members(host, running.process)
            expect_maps(host, mapped)
        seconds = ends_s - TAIL_S[profiler] - time.monotonic()
        if service.admin is not None and profiler == "pprof":
            whole = max(1, int(seconds - wanted.settle_s))  # it takes no parts of seconds
            at = socket_of(service.admin.endpoint)
            return ProfileCapture(running, profiler, ask(host, at, PPROF_PATH, after_s=wanted.settle_s, seconds=whole))
        return ProfileCapture(
            running,
            profiler,
            record(
                host,
                running.process,
                frequency_hz=wanted.frequency_hz,
                call_graph=call_graph_of(service),
                after_s=wanted.settle_s,
                seconds=seconds - wanted.settle_s,
                folder=trial.folder / f"profile.{service.name}",
            ),
            mapped,
        )
    except LostError:
        raise
    except HostError as error:
        return ProfileCapture(running, profiler, error, mapped)
