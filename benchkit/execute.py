"""A run from its first step to its last: hosts held and made ready, trials in order, everything put back."""

from __future__ import annotations

import time

from benchkit.analysis.adaptive import StopDecision, rule_of
from benchkit.course import Course
from benchkit.hosts.connect import RECONNECT_S, Hosts
from benchkit.judge import Judge
from benchkit.pipeline import Watcher
from benchkit.planning.plan import RunPlan
from benchkit.results.progress import Progress, progress_of
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.run.attempt import attempt_trial
from benchkit.run.book import Book, Outcome, closing
from benchkit.run.manifest import manifest_of
from benchkit.run.resume import Resumption, marks_of, order_of, take_up
from benchkit.run.site import Site
from benchkit.trial.state import trial_id_of


def execute(
    plan: RunPlan,
    hosts: Hosts,
    store: Store,
    watcher: Watcher,
    *,
    run_id: str | None = None,
    reconnect_s: float = RECONNECT_S,
) -> Outcome:
    """Carry out a plan and store what comes of it, under `run_id` where the hosts are held for one.

    A failed trial is recorded and the run goes on; so is a host that is lost: it is tried for `reconnect_s` seconds,
    then the run goes on without it. Raises HostError where a host is held by another run or lacks something, or a stack
    cannot be deployed; BenchkitError where the store cannot be written; KeyboardInterrupt passes through. Whatever is
    raised, services are stopped, hosts put back, and what finished is stored. Once all trials are over a host that is not
    put back raises nothing any more: see the outcome.
    """
    for obstacle in plan.obstacles:
        raise obstacle
    manifest = manifest_of(plan, hosts, run_id)
    hosts.hold(manifest.run_id)
    outcome = Outcome(store.create(manifest))
    tables = RunTables(store, plan.experiment.scenario.name, manifest.run_id)
    with outcome.run.locked(), outcome.run.journal() as journal, closing(outcome, store, tables, journal):
        book = Book(outcome, tables, journal, Judge(manifest))
        book.begin(manifest, plan.slots, order_of(plan.slots), Progress())
        site = Site(plan, hosts, book, watcher, reconnect_s=reconnect_s)
        _carry_out(Course(plan.slots, rule_of(manifest)), site, book, watcher)
        outcome.status = "failed" if outcome.failures else "done"
    return outcome


def resume(
    resumption: Resumption, hosts: Hosts, store: Store, watcher: Watcher, *, reconnect_s: float = RECONNECT_S
) -> Outcome:
    """Go on with a run, which must be locked, at its first unfinished trial; raises as `execute` does."""
    plan, run = resumption.plan, resumption.run
    for obstacle in plan.obstacles:
        raise obstacle
    hosts.hold(run.run_id)
    outcome = Outcome(run)
    tables = RunTables(store, plan.experiment.scenario.name, run.run_id)
    with run.journal() as journal, closing(outcome, store, tables, journal):
        book = Book(outcome, tables, journal, Judge(run.manifest()))
        course = take_up(resumption, store, book, tables)
        outcome.count(progress_of(run.history()))
        watcher.taken_up(marks_of(course, run, tables))
        if not course.is_over:  # else it was killed when only its last words were missing
            site = Site(plan, hosts, book, watcher, reconnect_s=reconnect_s)
            _carry_out(course, site, book, watcher)
        outcome.status = "failed" if outcome.failures else "done"
    return outcome


def _carry_out(course: Course, site: Site, book: Book, watcher: Watcher) -> None:
    """The trials of a course on a site, each written down."""
    outcome = book.outcome
    with site.ready():
        for slot in course:
            watcher.trial_started(slot)
            began = time.monotonic()
            came = attempt_trial(slot, site, book, watcher)
            site.notice_clocks()
            if came.how == "cut":
                if (over := course.cut(slot)) is not None:
                    book.split(slot.block, slot.round + 1, (trial_id_of(outcome.run.run_id, each) for each in over))
                    watcher.block_cut(slot.block)
                continue
            book.decision(course.ended(slot, came.row, time.monotonic() - began, book.exclusions))
        if course.early is not None:
            _end_early(outcome.run, course.early, watcher)


def _end_early(run: RunFolder, decision: StopDecision, watcher: Watcher) -> None:
    """Have the manifest say how many blocks there were in the end, and why."""
    manifest = run.manifest()
    said = f"Ended after {decision.blocks} of at most {manifest.blocks} blocks: {decision.reason}."
    run.write_manifest(manifest.model_copy(update={"blocks": decision.blocks, "notices": (*manifest.notices, said)}))
    watcher.stage(said)
