"""A trial as the list of its steps.

Nothing here decides what is run (that is the plan's), how a host is spoken to (`hosts`), or where things are stored
(`results`): this file is the order of things, to be read from top to bottom.
"""

from __future__ import annotations

from benchkit.errors import HostError
from benchkit.models.trial import TrialRecord
from benchkit.run.steps.load import collect_load, measure, warm_up
from benchkit.run.steps.probe import probe_response
from benchkit.run.steps.profiles import collect_profiles, drop_profiles
from benchkit.run.steps.record import make_record
from benchkit.run.steps.services import (
    cause_outages,
    clear_away,
    collect_logs,
    make_folders,
    measure_disk_usage,
    require_alive,
    require_free_ports,
    start_services,
    stop_services,
)
from benchkit.run.steps.trial_state import Step, Trial
from benchkit.run.steps.watch import collect_telemetry, unwatch_hosts, watch_hosts

STEPS: tuple[Step, ...] = (
    require_free_ports,
    make_folders,
    start_services,
    watch_hosts,
    probe_response,
    warm_up,
    cause_outages,
    measure,
    require_alive,
    collect_load,
    collect_telemetry,
    collect_profiles,
    collect_logs,
    measure_disk_usage,
)
"""What a trial does, in this order."""

AFTERWARDS: tuple[Step, ...] = (unwatch_hosts, stop_services, drop_profiles, clear_away, require_free_ports)
"""What ends every trial, however far it came."""


def run_trial(trial: Trial) -> TrialRecord:
    """Carry out a trial. Raises HostError where it fails; its services are stopped whatever happens."""
    try:
        for step in STEPS:
            step(trial)
    except BaseException as error:  # Ctrl-C too: what went wrong first is what is raised
        for failure in _afterwards(trial):
            error.add_note(f"and afterwards: {failure}")
        raise
    for failure in _afterwards(trial):
        raise failure
    return make_record(trial)


def _afterwards(trial: Trial) -> list[HostError]:
    """Carry out what ends every trial, each step whatever became of those before it; what failed."""
    failures = []
    for step in AFTERWARDS:
        try:
            step(trial)
        except HostError as error:
            failures.append(error)
    return failures
