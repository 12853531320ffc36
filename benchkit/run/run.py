"""A run, from an experiment to its stored and judged trials: the file to read first.

    experiment = read_experiment("quickstart")                 benchkit.scenario.read
    with connect_all(inventory) as hosts:                      benchkit.hosts.connections
        plan = make_plan(experiment, hosts)                    benchkit.plan.planner
        for block in queue:                                    benchkit.run.trial_queue
            trials = run_block(block)                          benchkit.run.block: the steps of a block
            commit(trials)                                     benchkit.run.attempt: raw files, rows, verdicts
    judge_stored_run(store, run)                               benchkit.run.judge: the trials of a run together
    compare_cells(read_run_data(store, run))                   benchkit.comparison.compare
    print_run_summary(...)                                     benchkit.cli.run_summary

`run_experiment` is this from `connect_all` to `judge_stored_run`; commands read before it, compare and show after it. A
resumed run takes the same steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from benchkit.comparison.adaptive import stop_rule
from benchkit.errors import raise_first
from benchkit.hosts.bootstrap import LEASE_S
from benchkit.hosts.connections import RECONNECT_S, Hosts, connect_all
from benchkit.hosts.cpu_affinity import pinned
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.other_programs import busy_programs, describe_programs, take_snapshot
from benchkit.models.thresholds import thresholds_of
from benchkit.plan.adaptation import Adaptation, ObservedBlock, adapt_to_first_block
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan, secret_notes
from benchkit.run.attempt import AttemptResult, attempt_block
from benchkit.run.events import RunObserver, serialized_observer
from benchkit.run.manifest import code_of, controller_placement, make_manifest, new_run_id
from benchkit.run.profile_windows import ProfileWindows
from benchkit.run.recorder import RunOutcome, RunRecorder, recording
from benchkit.run.resume import Resumption, check_resumption, finished_verdicts, make_queue, resume_queue
from benchkit.run.target_rates import TargetRates
from benchkit.run.testbed import Testbed
from benchkit.run.trial_queue import TrialQueue, run_concurrently
from benchkit.scenario.cells import missing_secrets
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.scenario.versus import ServerComparison
from benchkit.stats.samples import Exclusion
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.units import counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumeOptions:
    """Run to be resumed, whether changes since then are accepted, and whether failed trials are repeated."""

    run: RunFolder
    accept_changes: bool
    retry_failed: bool


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that are not part of its scenario."""

    run_id: str = field(default_factory=new_run_id)
    """Id of a new run."""
    seed: int | None = None
    """Seed instead of the scenario's."""
    tags: Mapping[str, str] = field(default_factory=dict)
    resume: ResumeOptions | None = None
    """Stored run to be resumed; None: a new run."""
    lease_s: float = LEASE_S
    """Time without a heartbeat after which hosts restore themselves."""
    reconnect_s: float = RECONNECT_S
    """Longest time for the reconnection to a lost host."""
    names_other_programs: bool = False
    """True to report before the first block what else uses the CPUs of the hosts; this may take a second."""
    adapts: ServerComparison | None = None
    """Comparison that ends after its first block where that block asks for another load or design."""


@dataclass(frozen=True)
class OpenedRun:
    """A run that can be executed: its plan, the hosts that are held for it, and its locked folder in the store."""

    plan: RunPlan
    hosts: Hosts
    store: Store
    folder: RunFolder
    options: RunOptions
    resumption: Resumption | None = None
    """Its resumption; None for a new run."""


def run_experiment(
    experiment: Experiment, inventory: Inventory, store: Store, observer: RunObserver, options: RunOptions
) -> RunOutcome:
    """Run an experiment on the hosts of an inventory, store its trials and judge them.

    Raises InputError for what cannot be run, and the errors of `open_run` and `execute`.
    """
    raise_first(missing_secrets(experiment))
    with connect_all(inventory, lease_s=options.lease_s) as hosts:
        before = take_snapshot(hosts) if options.names_other_programs else None
        with open_run(experiment, hosts, store, observer, options) as run:
            for sentence in secret_notes(run.plan.cells):
                observer.notify(sentence)
            display = observer.run_opened(run.plan, hosts, run.folder)
            if before is not None and (
                busy := busy_programs(hosts, before, experiment.scenario.thresholds.foreign_cores)
            ):
                text = describe_programs(busy)
                display.notify(
                    f"{text[:1].upper()}{text[1:]}: intervals will be wider. Stop it, or wait with --wait-idle."
                )
            outcome = execute(run, display)
        outcome.add_restore_outcome(hosts.close())
        return outcome


@contextmanager
def open_run(
    experiment: Experiment, hosts: Hosts, store: Store, observer: RunObserver, options: RunOptions
) -> Iterator[OpenedRun]:
    """Hold the hosts, then plan the run, then create its folder in the store, or check that it can be resumed.

    The plan comes second because what an earlier run left changes the facts of a host. The hosts stay held until they
    are closed. Raises HostError where a host is held by another run or lacks something, and BenchkitError where the
    store cannot be written. Raises InputError where a run cannot be resumed (`check_resumption`). Nothing is stored
    then.
    """
    resume = options.resume
    with ExitStack() as held:
        if resume is not None:
            held.enter_context(resume.run.locked())
        hosts.lock(options.run_id if resume is None else resume.run.run_id)
        observer.planning(len(experiment.cells))
        plan = make_plan(experiment, hosts, options.seed)
        if resume is None:
            manifest = make_manifest(plan, hosts, options.run_id, tags=options.tags, code=code_of(plan))
            run = OpenedRun(plan, hosts, store, store.create(manifest), options)
            held.enter_context(run.folder.locked())
        else:
            resumption = check_resumption(
                plan, hosts, resume.run, accept_changes=resume.accept_changes, retry_failed=resume.retry_failed
            )
            run = OpenedRun(plan, hosts, store, resume.run, options, resumption)
        yield run


def execute(run: OpenedRun, observer: RunObserver) -> RunOutcome:
    """Run the blocks of an opened run that are still to run, and store and judge their trials.

    A failed trial is recorded and the run continues. A lost host is reconnected for some time; then the run continues
    without it, or without its testbed where there are others.

    Raises HostError where a stack cannot be deployed; BenchkitError where the store cannot be written;
    KeyboardInterrupt passes through. With any error, services are stopped, hosts restored, and finished trials stored.
    A host that cannot be restored after the last trial raises no error: the outcome names it.
    """
    observer = serialized_observer(observer)
    with recording(run.folder, run.store) as recorder:
        first_block = None if run.options.adapts is None else _FirstBlock(run.folder, run.options.adapts)
        queue = _open_queue(run, recorder, observer, first_block)
        if not queue.is_empty:  # empty if the run was killed after its last trial
            ended = tuple(recorder.tables.trials())
            rates, windows = TargetRates(ended), ProfileWindows(ended)
            testbeds = [
                Testbed(
                    plan,
                    run.hosts.of_testbed(plan.testbed),
                    rates,
                    recorder,
                    observer,
                    windows=windows,
                    reconnect_s=run.options.reconnect_s,
                )
                for plan in run.plan.by_testbed
            ]
            with ExitStack() as ready:
                for testbed in testbeds:
                    ready.enter_context(testbed.ready())
                with pinned(controller_placement(run.plan, run.hosts)):
                    run_concurrently(
                        [partial(_run_blocks, queue, testbed) for testbed in testbeds],
                        stop=queue.stop,
                        abort=run.hosts.abort,
                    )
        note_early_stop(queue, recorder, observer)
    recorder.outcome.adaptation = None if first_block is None else first_block.adaptation
    return recorder.outcome


def _open_queue(
    run: OpenedRun, recorder: RunRecorder, observer: RunObserver, first_block: _FirstBlock | None
) -> TrialQueue:
    plan, resumption, run_id = run.plan, run.resumption, run.folder.run_id
    trials = counted(len(plan.planned_trials), "trial")
    names = ", ".join(sorted({name for names in plan.roles.values() for name in names}))
    logger.info("run %s: %s: %s on %s", run_id, "start" if resumption is None else "resume", trials, names)
    recorder.record_start(plan.planned_trials)
    if resumption is None:
        manifest = run.folder.manifest()
        return make_queue(plan, plan.planned_trials, stop_rule(manifest, first_block), manifest, {})
    queue = resume_queue(plan, resumption, recorder)
    observer.run_resumed(finished_verdicts(queue, recorder))
    _add_block(queue, recorder, observer)
    logger.info("run %s: %s had finished", run_id, counted(len(queue.finished), "trial"))
    return queue


class _FirstBlock:
    """Review of the first block of a comparison, which keeps what there is to adapt."""

    def __init__(self, run: RunFolder, comparison: ServerComparison) -> None:
        self._run = run
        self._comparison = comparison
        self._began_s = time.monotonic()
        self.adaptation: Adaptation | None = None

    def __call__(self, exclusions: Sequence[Exclusion]) -> str | None:
        """Return why the run ends; None where it goes on."""
        checks = frozenset(check for each in exclusions for check in each.checks)
        observed = ObservedBlock(tuple(self._run.records()), checks, thresholds_of(self._run.manifest()))
        spent_s = time.monotonic() - self._began_s
        self.adaptation = adapt_to_first_block(self._comparison, observed, spent_s=spent_s)
        return None if self.adaptation is None else "its load is adapted to its first block"


def _run_blocks(queue: TrialQueue, testbed: Testbed) -> None:
    """Run the blocks that the queue has for a ready testbed, and record them; outside slices, trials run one by one."""
    recorder, observer = testbed.recorder, testbed.observer
    for planned_trials in queue.batches(testbed.name):
        for planned_trial in planned_trials:
            observer.trial_started(planned_trial, testbed.name)
        started_s = time.monotonic()
        results = attempt_block(planned_trials, testbed)
        took_s = (time.monotonic() - started_s) / len(planned_trials)
        testbed.report_clocks()
        testbed.report_other_programs(
            planned_trials[0].block, [each.row for each in results.values() if each.row is not None]
        )
        is_given_up = bool(testbed.lost_hosts) and queue.leave(testbed.name)
        if is_given_up:
            observer.notify(recorder.record_lost_testbed(str(testbed.name), "; ".join(testbed.lost_hosts.values())))
        if is_given_up or any(result.outcome == "interrupted" for result in results.values()):
            _repeat_block(planned_trials, results, queue, testbed)
        else:
            for planned_trial in planned_trials:
                decision = queue.finish(planned_trial, results[planned_trial].row, took_s, recorder.judge.exclusions)
                recorder.record_decision(decision)
            _add_block(queue, recorder, observer)
        if is_given_up:
            return


def _add_block(queue: TrialQueue, recorder: RunRecorder, observer: RunObserver) -> None:
    """Add a block in place of one that has invalid trials, where the queue allows it."""
    added = queue.add_block(recorder.judge.exclusions)
    if added is not None:
        recorder.record_added_block(added)
        observer.block_added(queue.trials_of(added.block), added.lost)


def _repeat_block(
    batch: Sequence[PlannedTrial], results: Mapping[PlannedTrial, AttemptResult], queue: TrialQueue, testbed: Testbed
) -> None:
    first = batch[0]
    finished = queue.finished_with(first)
    if finished is not None:
        logger.info("block %d: interrupted, repeated", first.block)
        recorded = [planned_trial for planned_trial in batch if results[planned_trial].outcome != "interrupted"]
        testbed.recorder.record_interrupted_block(first.block, first.round + 1, (*finished, *recorded))
        testbed.observer.block_interrupted(first.block)
    queue.interrupt(first)


def note_early_stop(queue: TrialQueue, recorder: RunRecorder, observer: RunObserver) -> None:
    """Record and report that the run needed fewer blocks than planned, unless a resumed run had recorded it already."""
    decision, planned_blocks = queue.early_stop, recorder.run.manifest().blocks
    if decision is not None and decision.blocks < planned_blocks:
        text = f"Ended after {decision.blocks} of at most {planned_blocks} blocks: {decision.reason}."
        recorder.record_early_stop(decision.blocks, text)
        observer.notify(text)
