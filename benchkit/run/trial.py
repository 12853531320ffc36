"""The steps of a trial in their order, to be read from top to bottom.

Each step is a function of a module in `benchkit.run.steps`. What happens in a run is in `benchkit.run.loop`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from benchkit.errors import BenchkitError, HostError, HostStateError, LostError, collect_errors, raise_first
from benchkit.models.trial import TrialRecord
from benchkit.run.run_log import log_step
from benchkit.run.steps.load import collect_load, measure, warm_up
from benchkit.run.steps.probe import probe_after, probe_responses
from benchkit.run.steps.profiles import check_perf_maps, collect_profiles, expect_perf_maps, stop_captures
from benchkit.run.steps.record import make_record
from benchkit.run.steps.services import (
    cause_outages,
    collect_logs,
    explain_port_in_use,
    find_port_taker,
    make_folders,
    measure_disk_usage,
    remove_folders,
    require_alive,
    require_free_ports,
    require_room,
    start_services,
    stop_services,
)
from benchkit.run.steps.telemetry_steps import collect_telemetry, unwatch_hosts, watch_hosts
from benchkit.run.steps.trial_state import Step, Trial

logger = logging.getLogger(__name__)

STEPS: tuple[Step, ...] = (
    require_free_ports,
    make_folders,
    expect_perf_maps,
    start_services,
    check_perf_maps,
    watch_hosts,
    probe_responses,
    warm_up,
    cause_outages,
    measure,
    require_alive,
    probe_after,
    collect_load,
    collect_telemetry,
    collect_profiles,
    collect_logs,
    measure_disk_usage,
)
"""The steps of a trial."""

CLEANUP_STEPS: tuple[Step, ...] = (
    unwatch_hosts,
    stop_services,
    stop_captures,
    remove_folders,
    require_free_ports,
)
"""The steps at the end of every trial, also of one that failed at an earlier step."""


def run_trial(trial: Trial) -> TrialRecord:
    """Run the steps of a trial.

    Raises HostError where one fails; the logs of the services are in the trial's files then. The services are stopped
    in any case.
    """
    try:
        for step in STEPS:
            with log_step(logger, f"trial {trial.trial_id}: {step.__name__}"):
                step(trial)
    except BaseException as error:  # Ctrl-C too: the first error is the one to raise
        is_failure = isinstance(error, BenchkitError)
        cause = find_cause(trial, error)
        for failure in run_all(trial, (collect_logs, *CLEANUP_STEPS) if is_failure else CLEANUP_STEPS):
            (cause or error).add_note(f"and afterwards: {failure}")
        if cause is not None:
            raise cause from error
        raise
    raise_first(run_all(trial, CLEANUP_STEPS))
    return make_record(trial)


def find_cause(trial: Trial, error: BaseException) -> HostError | None:
    """Return the error that explains another one better, if there is one: of a server, or of the host."""
    taker = find_port_taker(error, trial)
    explain_port_in_use(error, trial)
    return taker[1] if taker else find_host_state(trial, error)


def find_host_state(trial: Trial, error: BaseException) -> HostStateError | None:
    """Return the state of a host that explains a failure which does not name it, if there is one right now.

    A server or a load tool on a full disk fails with words of its own, or none.
    """
    if not isinstance(error, HostError) or isinstance(error, LostError | HostStateError):
        return None
    try:
        require_room(trial)
    except HostStateError as state:
        no_room = ": ".join(filter(None, (f"{state.where} has no room", state.what, state.why)))
        return HostStateError(error.what, where=error.where, why="; ".join(filter(None, (error.why, no_room))))
    except HostError:  # a lost host, which the next step meets too
        return None
    return None


def run_all(trial: Trial, steps: Iterable[Step]) -> list[HostError]:
    """Run all of these steps, also where one fails; return the errors."""

    def run(step: Step) -> None:
        with log_step(logger, f"trial {trial.trial_id}: {step.__name__}"):
            step(trial)

    return collect_errors(partial(run, step) for step in steps)
