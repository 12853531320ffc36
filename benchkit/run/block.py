"""The steps of a block in their order, to be read from top to bottom.

A block has n trials, whose load takes turns in m slices. A trial that runs alone is a
block of one cell with one slice. Each step is a function of a module in `benchkit.run.steps`. `benchkit.run.run` has
the steps of a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from benchkit.errors import BenchkitError, HostError, HostStateError, InputError, LostError, collect_errors, raise_first
from benchkit.models.trial import TrialRecord
from benchkit.run.steps.load import (
    collect_load,
    make_shared_folder,
    measure,
    remove_shared_folder,
    require_load,
    warm_up,
)
from benchkit.run.steps.load_curve import measure_curve
from benchkit.run.steps.probe import probe_after, probe_responses
from benchkit.run.steps.profiles import (
    check_perf_maps,
    collect_profiles,
    collect_traces,
    expect_perf_maps,
    stop_captures,
    stop_traces,
)
from benchkit.run.steps.services import (
    PORT_IN_USE,
    cause_outages,
    collect_logs,
    make_folders,
    measure_disk_usage,
    remove_folders,
    require_alive,
    require_free_ports,
    require_room,
    start_services,
    stop_services,
)
from benchkit.run.steps.state import Block, Trial, make_record
from benchkit.run.steps.telemetry import collect_telemetry, unwatch_hosts, watch_hosts
from benchkit.store.run_log import log_step

logger = logging.getLogger(__name__)

TrialStep = Callable[[Trial], None]
BlockStep = Callable[[Block], None]
"""One step of a trial or a block. Raises HostError where it fails."""


@dataclass(frozen=True)
class TrialSteps:
    """Steps that every trial of a block runs, one trial after the other."""

    steps: tuple[TrialStep, ...]


def apply_load(block: Block) -> None:
    """Run the load of all trials; for a trial that measures a load curve, run the loads of that curve."""
    is_curve = any(trial.measures_curve for trial in block.trials)
    (measure_curve if is_curve else measure)(block)


STEPS: tuple[BlockStep | TrialSteps, ...] = (
    TrialSteps((require_free_ports, make_folders, expect_perf_maps, start_services, check_perf_maps)),
    make_shared_folder,
    watch_hosts,
    TrialSteps((probe_responses, warm_up, cause_outages)),
    apply_load,
    collect_load,
    collect_telemetry,
    TrialSteps(
        (require_alive, require_load, probe_after, collect_profiles, collect_traces, collect_logs, measure_disk_usage)
    ),
)
"""The steps of a block."""

TRIAL_CLEANUP: tuple[TrialStep, ...] = (
    stop_services,
    stop_captures,
    stop_traces,
    remove_folders,
)
"""The steps at the end of every trial, also of one that failed at an earlier step."""


def run_block(block: Block) -> dict[str, TrialRecord]:
    """Run the steps of a block; return the records of the trials that ended, by trial id.

    A trial that fails by its own fault is added to `block.failures`, as are trials that use its servers; the others
    continue. All trials must be measured at the same time: HostError is raised for a lost host and for a passing state
    of a host. The services are stopped in any case.
    """
    try:
        _run_steps(block)
    except BaseException as error:  # Ctrl-C too: the first error is the one to raise
        state = next(filter(None, (_host_state(trial, error) for trial in block.trials)), None)
        for failure in _clean_up(block, with_logs=isinstance(error, BenchkitError)):
            (state or error).add_note(f"the cleanup failed too: {failure}")
        if state is not None:
            raise state from error
        raise
    raise_first(_clean_up(block))
    records = [make_record(trial) for trial in block.trials]
    under_load_s = sum(record.warmed_up_s + record.window_s for record in records)
    overhead_s = (time.monotonic() - block.started_s - under_load_s) / max(1, len(records))
    return {
        record.trial_id: record.model_copy(update={"wall_s": record.warmed_up_s + record.window_s + overhead_s})
        for record in records
    }


def _run_steps(block: Block) -> None:
    for step in STEPS:
        if isinstance(step, TrialSteps):
            _run_each(block, step.steps)
        else:
            with log_step(logger, f"trial {block.title}: {step.__name__}"):
                step(block)
        if not block.trials:
            return


def _run_each(block: Block, steps: Sequence[TrialStep]) -> None:
    """Run steps of every trial; remove a trial that fails by its own fault from the block.

    Raises HostError for any other failure.
    """
    for trial in list(block.trials):
        if trial.trial_id in block.failures:
            continue
        try:
            for step in steps:
                _run_logged(step, trial)
        except (HostError, InputError) as error:
            if (state := _host_state(trial, error)) is not None:
                raise state from error
            if isinstance(error, LostError | HostStateError) or block.hosts.unreachable():
                raise
            if len(block.trials) > 1 and PORT_IN_USE.search(str(error)):
                error.hint = "set `design: blocks`, which starts the servers of one cell at a time"
            for failed in (trial, *(each for each in block.trials if each.owner is trial)):
                for failure in _run_all(failed, (collect_logs, *TRIAL_CLEANUP, require_free_ports)):
                    error.add_note(f"the cleanup failed too: {failure}")
                block.trials.remove(failed)
                block.failures[failed.trial_id] = error


def _host_state(trial: Trial, error: BaseException) -> HostStateError | None:
    """Return the state of a host, such as a full disk, that explains the failure of a trial; None if there is none.

    Servers and load tools often fail on a full disk without naming it.
    """
    if not isinstance(error, HostError) or isinstance(error, LostError | HostStateError):
        return None
    try:
        require_room(trial)
    except HostStateError as state:
        no_room = ": ".join(filter(None, (f"{state.where} has no room", state.what, state.why)))
        return HostStateError(error.what, where=error.where, why="; ".join(filter(None, (error.why, no_room))))
    except HostError:  # a lost host: the next step raises it too
        return None
    return None


def _clean_up(block: Block, *, with_logs: bool = False) -> list[HostError]:
    """Stop everything that runs for a block, and remove its files; return the errors.

    The ports of its trials are checked after all services have stopped.
    """
    steps = (collect_logs, *TRIAL_CLEANUP) if with_logs else TRIAL_CLEANUP
    errors = collect_errors([partial(unwatch_hosts, block)])
    errors += [error for trial in block.trials for error in _run_all(trial, steps)]
    errors += collect_errors([partial(remove_shared_folder, block)])
    return errors + [error for trial in block.trials for error in _run_all(trial, (require_free_ports,))]


def _run_logged(step: TrialStep, trial: Trial) -> None:
    with log_step(logger, f"trial {trial.trial_id}: {step.__name__}"):
        step(trial)


def _run_all(trial: Trial, steps: Iterable[TrialStep]) -> list[HostError]:
    return collect_errors(partial(_run_logged, step, trial) for step in steps)
