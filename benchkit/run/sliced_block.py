"""A sliced block from top to bottom: the cells are made ready one by one, share the measured time, and end one by one.

A cell whose server fails is a failed trial, and the others go on without it. A host that is lost, or in a state that
may pass, fails the block as a whole: its cells must be measured at the same time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchkit.errors import BenchkitError, HostError, HostStateError, InputError, LostError, collect_errors, raise_first
from benchkit.models.trial import TrialRecord
from benchkit.run.run_log import log_step
from benchkit.run.steps.load import warm_up
from benchkit.run.steps.probe import probe_after, probe_responses
from benchkit.run.steps.record import make_record
from benchkit.run.steps.services import (
    collect_logs,
    explain_port_in_use,
    find_port_taker,
    make_folders,
    measure_disk_usage,
    require_alive,
    require_free_ports,
    start_services,
)
from benchkit.run.steps.sliced_load import (
    SlicedLoad,
    collect_slices,
    make_block_folder,
    measure_slices,
    remove_block_folder,
    require_slices,
)
from benchkit.run.steps.sliced_telemetry import collect_block_telemetry, unwatch_block, watch_block
from benchkit.run.steps.trial_state import Step, Trial
from benchkit.run.trial import CLEANUP_STEPS, find_host_state, run_all

logger = logging.getLogger(__name__)

PREPARATION: tuple[Step, ...] = (require_free_ports, make_folders, start_services, probe_responses, warm_up)
"""The steps of each trial before the slices."""

CONCLUSION: tuple[Step, ...] = (require_alive, require_slices, probe_after, collect_logs, measure_disk_usage)
"""The steps of each trial after the slices."""

CLEANUP = tuple(step for step in CLEANUP_STEPS if step is not require_free_ports)
"""The steps at the end of each trial. Its ports are checked when no service of the block is left."""


@dataclass
class BlockResult:
    """The trials of a block: the records of those that ended, and the errors of the others, by trial id."""

    records: dict[str, TrialRecord] = field(default_factory=dict)
    failures: dict[str, HostError | InputError] = field(default_factory=dict)


def run_sliced_block(trials: Iterable[Trial], slice_s: float, seed: int) -> BlockResult:
    """Run the trials of a block together.

    Raises HostError where a host is lost, in a state that may pass, or cannot be sampled; the services are stopped in
    any case.
    """
    started_s = time.monotonic()
    load = SlicedLoad(list(trials), slice_s, seed)
    result = BlockResult()
    try:
        _run_each(load, PREPARATION, result)
        if load.trials:
            make_block_folder(load)
            watch_block(load)
            measure_slices(load)
            collect_slices(load)
            collect_block_telemetry(load)
            _run_each(load, CONCLUSION, result)
    except BaseException as error:  # Ctrl-C too: the first error is the one to raise
        is_failure = isinstance(error, BenchkitError)
        host_state = next(filter(None, (find_host_state(trial, error) for trial in load.trials)), None)
        reason = host_state or error
        unwatch_block(load, reason)
        for trial in load.trials:
            for failure in run_all(trial, (collect_logs, *CLEANUP) if is_failure else CLEANUP):
                reason.add_note(f"and afterwards: {failure}")
        for failure in collect_errors([partial(remove_block_folder, load)]):
            reason.add_note(f"and afterwards: {failure}")
        if host_state is not None:
            raise host_state from error
        raise
    ended = list(load.trials)
    failures = [failure for trial in ended for failure in run_all(trial, CLEANUP)]
    raise_first([*failures, *collect_errors([partial(remove_block_folder, load)])])
    for trial in ended:
        require_free_ports(trial)
    for trial in ended:
        trial.wall_s = (time.monotonic() - started_s) / len(ended)
        result.records[trial.trial_id] = make_record(trial)
    return result


def _run_each(load: SlicedLoad, steps: Iterable[Step], result: BlockResult) -> None:
    """Run these steps of every trial; one that fails by its own fault leaves the block.

    So does one whose server has the port of another trial, which is prepared once more.
    """
    steps = tuple(steps)
    remaining = list(load.trials)
    while remaining:
        trial = remaining[0]
        others = [each for each in load.trials if each is not trial]
        try:
            for step in steps:
                with log_step(logger, f"trial {trial.trial_id}: {step.__name__}"):
                    step(trial)
            remaining.remove(trial)
        except (HostError, InputError) as error:
            failed, failure = _find_fault(error, trial, others)
            for note in run_all(failed, (collect_logs, *CLEANUP)):
                failure.add_note(f"and afterwards: {note}")
            load.trials.remove(failed)
            result.failures[failed.trial_id] = failure
            if failed is trial:
                remaining.remove(trial)
            else:
                raise_first(run_all(trial, CLEANUP))
                trial.running_services.clear()


def _find_fault(
    error: HostError | InputError, trial: Trial, others: Sequence[Trial]
) -> tuple[Trial, HostError | InputError]:
    """Return the trial that an error of `trial` is due to, this one or one of the `others`, and its error.

    Raises HostError where the error is no trial's fault.
    """
    failed, failure = find_port_taker(error, trial, others) or (trial, error)
    explain_port_in_use(failure, failed, others)
    host_state = find_host_state(failed, failure)
    if host_state is not None:
        raise host_state from error
    if isinstance(failure, LostError | HostStateError):
        raise failure
    return failed, failure
