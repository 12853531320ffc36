"""A run, from an experiment to its stored and judged trials: the file to read first.

    experiment = read_experiment("quickstart")                 benchkit.scenario.read
    with connect_all(inventory) as hosts:                      benchkit.hosts.connections
        plan = make_plan(experiment, hosts)                    benchkit.plan.planner
        for batch in queue.batches():                          benchkit.run.trial_queue
            results = attempt_block(batch, testbed)            benchkit.run.attempt: retries, raw files, rows, verdicts
                run_block(block)                               benchkit.run.block: the steps of a block
    judge_stored_run(store, run)                               benchkit.run.judge: the trials of a run together
    compare_cells(read_run_data(store, run))                   benchkit.comparison.compare
    print_run_summary(...)                                     benchkit.cli.run_summary

`run_experiment` goes from `connect_all` to `judge_stored_run`. Commands read the experiment before it; they compare and
show the results after it. A resumed run takes the same steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchkit.comparison.adaptive import stop_rule
from benchkit.errors import raise_first
from benchkit.hosts.bootstrap import LEASE_S
from benchkit.hosts.connections import RECONNECT_S, Hosts, connect_all
from benchkit.hosts.cpu_affinity import pinned
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.other_programs import busy_programs, describe_programs, take_snapshot
from benchkit.judge.load_curve import load_curve
from benchkit.models.thresholds import thresholds_of
from benchkit.plan.adaptation import LAST_REVIEWED, LATEST_RESTART, Adaptation, adapt
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan, secret_notes
from benchkit.run.attempt import attempt_block
from benchkit.run.events import Notice, Opened, Planning, Resumed, Show, TrialBegun, show_nothing
from benchkit.run.manifest import code_of, controller_placement, make_manifest, new_run_id
from benchkit.run.recorder import RunOutcome, RunRecorder, recording
from benchkit.run.resume import Resumption, check_resumption, resume_queue
from benchkit.run.testbed import Testbed
from benchkit.run.trial_queue import TrialQueue
from benchkit.scenario.cells import missing_secrets
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.scenario.versus import ServerComparison
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.units import counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumeOptions:
    """Run to be resumed, and the options of `check_resumption`."""

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
    """True to report other programs that use the CPUs of the hosts before the first block; this may take a second."""
    adapts: ServerComparison | None = None
    """Comparison that ends after its load curves or first block if these call for another load or design."""


@dataclass(frozen=True)
class OpenedRun:
    """A run ready for execution: its plan, the hosts that are held for it, and its locked folder in the store."""

    plan: RunPlan
    hosts: Hosts
    store: Store
    folder: RunFolder
    options: RunOptions
    resumption: Resumption | None = None
    """Its resumption; None for a new run."""


def run_experiment(
    experiment: Experiment, inventory: Inventory, store: Store, options: RunOptions, show: Show = show_nothing
) -> RunOutcome:
    """Run an experiment on the hosts of an inventory, store its trials and judge them.

    Raises InputError for missing secrets, and the errors of `connect_all`, `open_run` and `execute`.
    """
    raise_first(missing_secrets(experiment))
    with connect_all(inventory, lease_s=options.lease_s) as hosts:
        before = take_snapshot(hosts) if options.names_other_programs else None
        with open_run(experiment, hosts, store, options, show) as run:
            for sentence in secret_notes(run.plan.cells):
                show(Notice(sentence))
            show(Opened(run.plan, hosts, run.folder))
            limit = experiment.scenario.thresholds.foreign_cores
            if before is not None and (busy := busy_programs(hosts, before, limit)):
                text = describe_programs(busy)
                advice = "intervals will be wider. Stop it, or wait with --wait-idle."
                show(Notice(f"{text[:1].upper()}{text[1:]}: {advice}"))
            outcome = execute(run, show)
        outcome.add_restore_outcome(hosts.close())
        return outcome


@contextmanager
def open_run(
    experiment: Experiment, hosts: Hosts, store: Store, options: RunOptions, show: Show = show_nothing
) -> Iterator[OpenedRun]:
    """Hold the hosts, plan the run, and create its folder in the store or check that it can be resumed.

    The hosts are held first, because changes of an earlier run affect their facts; they stay held until they are
    closed. Raises HostError where a host is in use or lacks something, and BenchkitError where the store cannot be
    written. Raises InputError where a run cannot be resumed (`check_resumption`). Nothing is stored after these errors.
    """
    resume = options.resume
    with ExitStack() as held:
        if resume is not None:
            held.enter_context(resume.run.locked())
        hosts.lock(options.run_id if resume is None else resume.run.run_id)
        show(Planning(len(experiment.cells)))
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


def execute(run: OpenedRun, show: Show = show_nothing) -> RunOutcome:
    """Run the remaining blocks of an opened run, and store and judge their trials.

    A failed trial is recorded and the run continues. The run also continues without a host that is lost and cannot be
    reconnected. Raises HostError where a stack cannot be deployed, and BenchkitError where the store cannot be written;
    KeyboardInterrupt passes through. After any error, services are stopped, hosts restored, and finished trials stored.
    For a host that cannot be restored after the last trial no error is raised: the outcome names it.
    """
    with recording(run.folder, run.store, show) as recorder:
        review = None if run.options.adapts is None else _Review(run.folder, recorder.outcome, run.options.adapts)
        queue = _open_queue(run, recorder)
        if not queue.is_empty:  # empty if the run was killed after its last trial
            testbed = Testbed(run.plan, run.hosts, recorder, reconnect_s=run.options.reconnect_s)
            testbed.found_loads.lowers_held_rates = review is not None
            with testbed.ready(), pinned(controller_placement(run.plan, run.hosts)):
                for batch in queue.batches():
                    if review is not None and review.ends_before(batch[0]):
                        break
                    _run_batch(batch, queue, testbed)
        recorder.record_early_stop(queue.early_stop)
    recorder.outcome.adaptation = None if review is None else review.adaptation
    return recorder.outcome


def _open_queue(run: OpenedRun, recorder: RunRecorder) -> TrialQueue:
    plan, resumption, run_id = run.plan, run.resumption, run.folder.run_id
    trials = counted(len(plan.planned_trials), "trial")
    names = ", ".join(sorted({name for names in plan.roles.values() for name in names}))
    logger.info("run %s: %s: %s on %s", run_id, "start" if resumption is None else "resume", trials, names)
    recorder.record_start(plan.planned_trials)
    if resumption is None:
        rule = stop_rule(run.folder.manifest())
        return TrialQueue(plan.planned_trials, rule, together=plan.design == "sliced")
    queue = resume_queue(plan, resumption, recorder)
    verdicts = {row.trial_id: row.verdict for row in recorder.tables.trials()}
    recorder.show(Resumed({trial: verdicts.get(recorder.trial_id(trial)) or "failed" for trial in queue.finished}))
    logger.info("run %s: %s had finished", run_id, counted(len(queue.finished), "trial"))
    return queue


class _Review:
    """Review of a comparison after each load curve, and after its first block; it keeps what there is to adapt."""

    def __init__(self, run: RunFolder, outcome: RunOutcome, comparison: ServerComparison) -> None:
        self._run = run
        self._outcome = outcome
        self._comparison = comparison
        self._began_s = time.monotonic()
        self.adaptation: Adaptation | None = None

    def ends_before(self, trial: PlannedTrial) -> bool:
        """Return True where the run ends before a trial: another load or design is called for, or a server failed."""
        spent_s = self._comparison.spent_s + time.monotonic() - self._began_s
        is_late = trial.block > 1 and spent_s > LATEST_RESTART * self._comparison.budget_s
        if is_late or trial.block > LAST_REVIEWED or (trial.is_measured and trial.position > 1):
            return False
        thresholds, records = thresholds_of(self._run.manifest()), tuple(self._run.records())
        curves = [load_curve(record.load_curve, thresholds) for record in records if record.load_curve]
        limited = [curve for curve in curves if curve.limit.kind == "load tool"]
        limited_at = [max(point.server_cores or 0.0 for point in curve.points) for curve in limited]
        causes = {cause for cause in self._outcome.causes.values() if cause is not None}
        measured = [record for record in records if record.kind == "measure"]
        self.adaptation = adapt(self._comparison, thresholds, causes=causes, limited_at=limited_at, measured=measured)
        has_failed = trial.is_measured and trial.block == 1 and bool(self._outcome.failures)
        return self.adaptation is not None or has_failed


def _run_batch(batch: Sequence[PlannedTrial], queue: TrialQueue, testbed: Testbed) -> None:
    """Run trials together and record them; queue their block again if a pause interrupted it."""
    recorder = testbed.recorder
    for planned_trial in batch:
        recorder.show(TrialBegun(planned_trial))
    started_s = time.monotonic()
    results = attempt_block(batch, testbed)
    took_s = (time.monotonic() - started_s) / len(batch)
    testbed.report_other_programs(batch[0].block, [each.row for each in results.values() if each.row is not None])
    if any(result.outcome == "interrupted" for result in results.values()):
        finished = queue.interrupt(batch[0])
        if finished is not None:
            recorded = [trial for trial, result in results.items() if result.outcome != "interrupted"]
            recorder.record_interrupted_block(batch[0].block, batch[0].round + 1, (*finished, *recorded))
        return
    for planned_trial in batch:
        decision = queue.finish(planned_trial, results[planned_trial].row, took_s, recorder.judge.exclusions)
        recorder.record_decision(decision)
