"""A run from its first step to its last: hosts held and made ready, trials in order, everything put back."""

from __future__ import annotations

import time

from benchkit.analysis.adaptive import StopDecision, stop_rule
from benchkit.hosts.connections import RECONNECT_S, Hosts
from benchkit.results.progress import Progress, read_progress
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.run.attempt import attempt_trial
from benchkit.run.events import RunObserver
from benchkit.run.judge import Judge
from benchkit.run.manifest import make_manifest
from benchkit.run.plan.model import RunPlan
from benchkit.run.recorder import RunOutcome, RunRecorder, closing
from benchkit.run.resume import ResumePlan, marks_of, order_of, resume_queue
from benchkit.run.steps.trial_state import trial_id_of
from benchkit.run.testbed import Testbed
from benchkit.run.trial_queue import TrialQueue


def execute(
    plan: RunPlan,
    hosts: Hosts,
    store: Store,
    observer: RunObserver,
    *,
    run_id: str | None = None,
    reconnect_s: float = RECONNECT_S,
) -> RunOutcome:
    """Carry out a plan and store what comes of it, under `run_id` where the hosts are held for one.

    A failed trial is recorded and the run goes on; so is a host that is lost: it is tried for `reconnect_s` seconds,
    then the run goes on without it. Raises HostError where a host is held by another run or lacks something, or a stack
    cannot be deployed; BenchkitError where the store cannot be written; KeyboardInterrupt passes through. Whatever is
    raised, services are stopped, hosts put back, and what finished is stored. Once all trials are over a host that is not
    put back raises nothing any more: see the outcome.
    """
    for obstacle in plan.obstacles:
        raise obstacle
    manifest = make_manifest(plan, hosts, run_id)
    hosts.hold(manifest.run_id)
    outcome = RunOutcome(store.create(manifest))
    tables = RunTables(store, plan.experiment.scenario.name, manifest.run_id)
    with outcome.run.locked(), outcome.run.journal() as journal, closing(outcome, store, tables, journal):
        recorder = RunRecorder(outcome, tables, journal, Judge(manifest))
        recorder.begin(manifest, plan.planned_trials, order_of(plan.planned_trials), Progress())
        testbed = Testbed(plan, hosts, recorder, observer, reconnect_s=reconnect_s)
        _carry_out(TrialQueue(plan.planned_trials, stop_rule(manifest)), testbed, recorder, observer)
        outcome.status = "failed" if outcome.failures else "done"
    return outcome


def resume(
    resumption: ResumePlan, hosts: Hosts, store: Store, observer: RunObserver, *, reconnect_s: float = RECONNECT_S
) -> RunOutcome:
    """Go on with a run, which must be locked, at its first unfinished trial; raises as `execute` does."""
    plan, run = resumption.plan, resumption.run
    for obstacle in plan.obstacles:
        raise obstacle
    hosts.hold(run.run_id)
    outcome = RunOutcome(run)
    tables = RunTables(store, plan.experiment.scenario.name, run.run_id)
    with run.journal() as journal, closing(outcome, store, tables, journal):
        recorder = RunRecorder(outcome, tables, journal, Judge(run.manifest()))
        queue = resume_queue(resumption, store, recorder, tables)
        outcome.count(read_progress(run.history()))
        observer.run_resumed(marks_of(queue, run, tables))
        if not queue.is_over:  # else it was killed when only its last words were missing
            testbed = Testbed(plan, hosts, recorder, observer, reconnect_s=reconnect_s)
            _carry_out(queue, testbed, recorder, observer)
        outcome.status = "failed" if outcome.failures else "done"
    return outcome


def _carry_out(queue: TrialQueue, testbed: Testbed, recorder: RunRecorder, observer: RunObserver) -> None:
    """The trials of a course on a site, each written down."""
    outcome = recorder.outcome
    with testbed.ready():
        for planned_trial in queue:
            observer.trial_started(planned_trial)
            began = time.monotonic()
            came = attempt_trial(planned_trial, testbed, recorder, observer)
            testbed.notice_clocks()
            if came.how == "cut":
                if (over := queue.cut(planned_trial)) is not None:
                    recorder.split(
                        planned_trial.block,
                        planned_trial.round + 1,
                        (trial_id_of(outcome.run.run_id, each) for each in over),
                    )
                    observer.block_interrupted(planned_trial.block)
                continue
            recorder.decision(queue.ended(planned_trial, came.row, time.monotonic() - began, recorder.exclusions))
        if queue.early is not None:
            _end_early(outcome.run, queue.early, observer)


def _end_early(run: RunFolder, decision: StopDecision, observer: RunObserver) -> None:
    """Have the manifest say how many blocks there were in the end, and why."""
    manifest = run.manifest()
    said = f"Ended after {decision.blocks} of at most {manifest.blocks} blocks: {decision.reason}."
    run.write_manifest(manifest.model_copy(update={"blocks": decision.blocks, "notices": (*manifest.notices, said)}))
    observer.notify(said)
