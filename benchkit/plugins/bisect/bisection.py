"""The execution of a bisection: each commit is built, started and compared with the good end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchkit import units
from benchkit.cli.calibration import calibrate, calibration_of, experiment_of
from benchkit.cli.console import say
from benchkit.cli.display import RunDisplay
from benchkit.cli.run import run_interruptibly
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.errors import BenchkitError, HostError, InputError, raise_first
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.models.design import ALPHA_PER_LOOK, StopCondition
from benchkit.models.metrics import METRICS, metric_column
from benchkit.plan.model import PlannedCell
from benchkit.plan.planner import draft_plan
from benchkit.plugins.bisect.search import (
    BisectionRecord,
    Compared,
    SearchStep,
    continue_search,
    count_steps,
    save_bisection,
    step_error_rate,
)
from benchkit.run.manifest import new_run_id
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import RunOptions
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.versus import MAX_BLOCKS, Fields, ServerComparison, compare_refs
from benchkit.services.git_source import commits_between
from benchkit.store.store import Store

SCENARIO_NAME = "bisect"
REASON_WIDTH = 160
"""Longest result in the line of a step, in characters."""
MIN_BLOCKS = 6
"""Fewest blocks of a comparison: from here on the t interval keeps its coverage (see `benchkit.stats.inference`)."""
USUAL_BLOCKS = 30
"""Blocks for which a step has time: with so many, simulated searches find the right commit (`make bench`)."""
STEP_PRECISION = 0.001
"""Reach of an interval at which a step ends, even if the threshold is within it."""


def commit_fields(record: BisectionRecord, commits: Sequence[str], comparison: ServerComparison) -> Fields:
    """Return the scenario with these commits as levels of a factor, the first of them the baseline.

    The time of a step is divided among two at most: more commits are only built together, never compared.
    """
    fields = compare_refs(record.build, record.run, commits[:2], record.repository, comparison)
    title = f"Search for the commit that made {record.metric} worse"
    return {**fields, "name": SCENARIO_NAME, "title": title, "factors": {"ref": list(commits)}}


def step_fields(record: BisectionRecord, commit: str, *, threshold: float | None, error_rate: float) -> Fields:
    """Return the scenario that compares a commit with the good end until their ratio is decided.

    The ratio is decided once its interval at this error rate excludes the threshold. Without a threshold, the interval
    must be as narrow as the precision of the search.
    """
    comparison = record.comparison
    until = StopCondition(
        precision=comparison.precision if threshold is None else STEP_PRECISION,
        metrics=(record.metric,),
        min_blocks=MIN_BLOCKS,
        excludes=threshold,
        alpha=error_rate,
        budget_s=comparison.budget_s,
    )
    return {
        **commit_fields(record, (record.good.commit, commit), comparison),
        **comparison.times(2, USUAL_BLOCKS),
        "blocks": MAX_BLOCKS,
        "until": until.model_dump(mode="json", exclude_none=True),
    }


class CommitComparison:
    """Comparisons of one search, on the hosts of one inventory; see `benchkit.plugins.bisect.search.Compare`."""

    def __init__(self, record: BisectionRecord, inventory: Inventory, store: Store) -> None:
        """Take the search; `calibrate` first adapts its load."""
        self.record = record
        self._inventory = inventory
        self._store = store

    def calibrate(self, *, quiet: bool) -> BisectionRecord:
        """Return the search with a load at which the load tool is not the limit for either end.

        Raises BenchkitError where an end does not build, HostError where one does not run.
        """
        record = self.record
        ends = (record.good.commit, record.commits[-1].commit)
        bad = self._build(ends)[-1]
        if bad.unsupported is not None:
            raise BenchkitError("the bad end does not build", where=ends[1][:12], why=bad.unsupported)
        if bad.same_as is None:
            make_fields = partial(commit_fields, record, ends)
            found = calibrate(
                make_fields, record.comparison, self._inventory, self._store, settings=record.settings, quiet=quiet
            )
            self.record = record.model_copy(update={"comparison": replace(found, spent_s=0.0)})
        return self.record

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        """Build a commit, start it once, and compare it with the good end.

        Raises BenchkitError where the good end does not build, HostError where hosts fail.
        """
        cells = self._build((*judged, commit))
        built = cells[-1]
        if built.unsupported is not None:
            return Compared(reason=built.unsupported)
        if built.same_as is not None:
            return Compared(
                same_as=next(str(cell.spec.levels["ref"]) for cell in cells if cell.cell_id == built.same_as)
            )
        if threshold is not None and (failures := self._short_trial(commit)):
            why = "; ".join(failures.values())
            if self._short_trial(self.record.good.commit):
                raise HostError("the good end does not run any more", why=why)
            return Compared(reason=why)
        level = min(step_error_rate(len(self.record.commits)), ALPHA_PER_LOOK)
        fields = step_fields(self.record, commit, threshold=threshold, error_rate=level)
        outcome = self._run(experiment_of(fields, self.record.settings))
        data = read_run_data(self._store, outcome.run)
        cell_id = next(cell.cell_id for cell in data.manifest.cells if cell.levels["ref"] == commit)
        ratios = compare_cells(data, [self.record.metric]).ratios
        ratio = next((ratio for ratio in ratios if ratio.cell_id == cell_id), None)
        if ratio is None or ratio.ratio is None:
            reasons = [*outcome.failures.values(), *([ratio.reason] if ratio is not None and ratio.reason else [])]
            return Compared(run_id=outcome.run.run_id, reason="; ".join(dict.fromkeys(reasons)))
        return Compared(ratio, outcome.run.run_id)

    def _build(self, commits: Sequence[str]) -> tuple[PlannedCell, ...]:
        """Build commits, the good end first, unless they are built already; return their cells.

        The cell of one that does not build is unsupported. Raises BenchkitError where the good end does not build.
        """
        experiment = calibration_of(commit_fields(self.record, commits, self.record.comparison), self.record.settings)
        with connect_all(self._inventory) as hosts:
            plan, errors = draft_plan(experiment, hosts)
        good = plan.cells[0]
        if good.unsupported is not None:
            raise BenchkitError("the good end does not build", where=commits[0][:12], why=good.unsupported)
        raise_first(errors)
        return plan.cells

    def _short_trial(self, commit: str) -> Mapping[str, str]:
        """Run a short trial of a commit, and return why it failed, by trial."""
        fields = commit_fields(self.record, (commit,), self.record.comparison)
        return self._run(calibration_of(fields, self.record.settings)).failures

    def _run(self, experiment: Experiment) -> RunOutcome:
        """Run a scenario. Raises HostError where a host is lost or not restored."""
        display = RunDisplay(quiet=True)
        outcome = run_interruptibly(experiment, self._inventory, self._store, display, RunOptions(), is_resumable=False)
        if faults := {**outcome.not_restored, **outcome.restore_unconfirmed}:
            why = "; ".join(f"{host}: {reason}" for host, reason in faults.items())
            raise HostError("a host is lost or not restored", why=why, hint="benchkit hosts restore")
        return outcome


def new_record(
    good: str, bad: str, *, build: str, run: str, metric: str, comparison: ServerComparison, settings: Sequence[str]
) -> BisectionRecord:
    """Return the record of a new search in the repository of the present folder. Raises InputError."""
    metric = metric_column(metric)
    if metric not in METRICS or METRICS[metric].better is None:
        known = ", ".join(name for name, column in METRICS.items() if column.better is not None)
        raise InputError(
            f"{metric!r} is no column of `trials` with a better direction", where="--metric", why=f"they are: {known}"
        )
    start, commits = commits_between(Path.cwd(), good, bad)
    return BisectionRecord(
        bisection_id=new_run_id("b"),
        started_at=datetime.now(UTC),
        repository=str(Path.cwd()),
        good=start,
        commits=commits,
        metric=metric,
        build=build,
        run=run,
        comparison=comparison,
        settings=tuple(settings),
    )


def require_valid(record: BisectionRecord) -> None:
    """Find mistakes in the scenario of a step, before a lab is started. Raises InputError."""
    fields = step_fields(record, record.commits[-1].commit, threshold=None, error_rate=0.01)
    experiment_of(fields, record.settings)


def run_search(record: BisectionRecord, inventory: Inventory, store: Store, *, quiet: bool) -> BisectionRecord:
    """Run and store the remaining steps; an interruption or an error says how to continue."""

    def save(state: BisectionRecord) -> None:
        save_bisection(store.path, state)
        if not quiet:
            say(_progress_line(state))

    how_to_continue = f"continue the search with `benchkit bisect --resume {record.bisection_id}`"
    save_bisection(store.path, record)
    compare = CommitComparison(record, inventory, store)
    try:
        if record.end is None:
            if not quiet:
                steps = units.counted(count_steps(len(record.commits)), "comparison")
                most = units.duration(record.comparison.budget_s)
                say(f"{units.counted(len(record.commits), 'commit')}: about {steps} of at most {most}")
            record = compare.calibrate(quiet=quiet)
        return continue_search(record, compare, save)
    except KeyboardInterrupt:
        say(how_to_continue)
        raise
    except BenchkitError as error:
        error.add_note(how_to_continue)
        raise


def _progress_line(record: BisectionRecord) -> str:
    steps: tuple[SearchStep, ...] = (*([record.end] if record.end is not None else []), *record.steps)
    skipped = sum(step.judgement == "skipped" for step in steps)
    total = max(len(steps), count_steps(len(record.commits)) + skipped)
    result = textwrap.shorten(str(steps[-1]), REASON_WIDTH, placeholder=" …")
    if record.end is not None and record.end.judgement == "bad":
        result += f"; {units.counted(len(record.suspects), 'suspect')}"
    return f"{len(steps)} of about {total}: {record.titled(steps[-1].commit)}: {result}"
