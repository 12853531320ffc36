"""The execution of a bisection: each commit is built, started and compared with the good end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchkit import units
from benchkit.cli.calibration import ADAPTED, calibrate, calibration_of, experiment_of
from benchkit.cli.console import say
from benchkit.cli.progress import SilentProgress
from benchkit.cli.run import run_interruptibly
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.errors import BenchkitError, HostError, InputError, raise_first
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.models.design import ALPHA_PER_LOOK, StopCondition
from benchkit.models.metrics import METRICS, metric_column
from benchkit.models.request import Request
from benchkit.plan.model import PlannedCell
from benchkit.plan.planner import draft_plan
from benchkit.plugins.bisect.record import BisectionRecord, SearchOptions, SearchStep, save_bisection
from benchkit.plugins.bisect.search import Compared, continue_search, count_steps, describe_step, step_error_rate
from benchkit.run.manifest import new_run_id
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import RunOptions
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.versus import MAX_BLOCKS, ServerComparison, ServerRequest, compare_refs, design_of
from benchkit.scenario.versus_times import load_times, warm_up_s, window_s
from benchkit.services.git_source import commits_between
from benchkit.store.store import Store
from benchkit.validation import first_fault

SCENARIO_NAME = "bisect"
REASON_WIDTH = 160
"""Longest result in the line of a step, in characters."""
MIN_BLOCKS = 6
"""Fewest blocks of a comparison: from here on the t interval keeps its coverage (see `benchkit.stats.inference`)."""
USUAL_BLOCKS = 30
"""Blocks for which a step has time: with so many, simulated searches find the right commit (`make bench`)."""
STEP_PRECISION = 0.001
"""Reach of an interval at which a step ends, even if the threshold is within it."""


def comparison_of(record: BisectionRecord) -> ServerComparison:
    """Return load and duration of the comparisons of a search. Servers start in folders of their own."""
    options = record.options
    return ServerComparison(
        requests=tuple(
            ServerRequest(each.path, each.method, each.body, each.body_file, each.headers) for each in options.requests
        ),
        ready_within_s=options.ready_within_s,
        tool=options.tool,
        connections=options.connections,
        budget_s=options.duration_s,
        precision=options.precision,
        quota=options.quota,
        search_path=options.search_path,
        cpus=options.cpus,
        slice_s=options.slice_s,
        keepalive=options.keepalive,
        is_sliced=options.is_sliced,
        fixed=options.fixed,
    )


def commit_fields(record: BisectionRecord, commits: Sequence[str], comparison: ServerComparison) -> dict[str, Any]:
    """Return the fields of a scenario with these commits as levels of a factor, the first of them the baseline.

    The time of a step is divided among two at most: more commits are only built together, never compared. Raises
    InputError where that time is too short.
    """
    fields = compare_refs(record.build, record.run, commits[:2], record.repository, comparison)
    changes = {"name": SCENARIO_NAME, "title": f"Search for the commit that made {record.metric} worse"}
    return {**fields, **changes, "factors": {"ref": list(commits)}}


def step_fields(
    record: BisectionRecord, commit: str, *, threshold: float | None, error_rate: float
) -> dict[str, object]:
    """Return the fields of a scenario that compares a commit with the good end until their ratio is decided.

    The ratio is decided once its interval at this error rate excludes the threshold. Without a threshold, the interval
    must be as narrow as the precision of the search. Raises InputError where the time of a step is too short.
    """
    comparison = comparison_of(record)
    fields = commit_fields(record, (record.good.commit, commit), comparison)
    until = StopCondition(
        precision=comparison.precision if threshold is None else STEP_PRECISION,
        metrics=(record.metric,),
        min_blocks=MIN_BLOCKS,
        excludes=threshold,
        alpha=error_rate,
        budget_s=comparison.budget_s,
    )
    connections, tool = comparison.connections, comparison.tool
    window = window_s(
        2, comparison.budget_s, USUAL_BLOCKS, connections=connections, tool=tool, slice_s=comparison.slice_s
    )
    return {
        **fields,
        "load": {**fields["load"], **load_times(window, warm_up_s(window), comparison.tool)},
        "design": design_of(window, comparison),
        "blocks": MAX_BLOCKS,
        "until": until.model_dump(mode="json", exclude_none=True),
    }


class CommitComparison:
    """Comparisons of one search, on the hosts of one inventory; see `benchkit.plugins.bisect.search.Compare`."""

    def __init__(self, record: BisectionRecord, inventory: Inventory, store: Store) -> None:
        """Take the search; all comparisons use its options, some of which `calibrate` adapts first."""
        self.record = record
        self._inventory = inventory
        self._store = store

    def calibrate(self, *, quiet: bool) -> BisectionRecord:
        """Return the search with a load at which the load tool is not the limit for either end.

        Raises BenchkitError where an end does not build, HostError where one does not run.
        """
        ends = (self.record.good.commit, self.record.commits[-1].commit)
        bad = self._build(ends)[-1]
        if bad.unsupported is not None:
            raise BenchkitError("the bad end does not build", where=ends[1][:12], why=bad.unsupported)
        if bad.same_as is None:
            make_fields, options = partial(commit_fields, self.record, ends), self.record.options
            comparison, settings = comparison_of(self.record), options.settings
            found = calibrate(make_fields, comparison, self._inventory, self._store, settings=settings, quiet=quiet)
            options = options.model_copy(update={name: getattr(found, name) for name in ADAPTED})
            self.record = self.record.model_copy(update={"options": options})
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
        if threshold is not None and (reason := self._start_failure(commit)):
            return Compared(reason=reason)
        level = min(step_error_rate(len(self.record.commits)), ALPHA_PER_LOOK)
        fields = step_fields(self.record, commit, threshold=threshold, error_rate=level)
        outcome = self._run(experiment_of(fields, self.record.options.settings))
        return self._compared(outcome, commit)

    def _build(self, commits: Sequence[str]) -> tuple[PlannedCell, ...]:
        """Build commits, the good end first, unless they are built already; return their cells.

        The cell of one that does not build is unsupported. Raises BenchkitError where the good end does not build.
        """
        fields = commit_fields(self.record, commits, comparison_of(self.record))
        experiment = calibration_of(fields, self.record.options.settings)
        with connect_all(self._inventory) as hosts:
            plan, errors = draft_plan(experiment, hosts)
        good = plan.cells[0]
        if good.unsupported is not None:
            raise BenchkitError("the good end does not build", where=commits[0][:12], why=good.unsupported)
        raise_first(errors)
        return plan.cells

    def _start_failure(self, commit: str) -> str | None:
        """Run a short trial of a commit; return why it failed, or None.

        Raises HostError where the good end fails as well, and where hosts are not restored.
        """
        failures = self._short_trial(commit)
        if failures and self._short_trial(self.record.good.commit):
            raise HostError("the good end does not run any more", why="; ".join(failures.values()))
        return "; ".join(failures.values()) or None

    def _short_trial(self, commit: str) -> Mapping[str, str]:
        fields = commit_fields(self.record, (commit,), comparison_of(self.record))
        return self._run(calibration_of(fields, self.record.options.settings)).failures

    def _run(self, experiment: Experiment) -> RunOutcome:
        """Run a scenario. Raises HostError where a host is lost or not restored."""
        outcome = run_interruptibly(
            experiment, self._inventory, self._store, SilentProgress(), RunOptions(), is_resumable=False
        )
        if faults := {**outcome.not_restored, **outcome.restore_unconfirmed}:
            why = "; ".join(f"{host}: {reason}" for host, reason in faults.items())
            raise HostError("a host is lost or not restored", why=why, hint="benchkit hosts restore")
        return outcome

    def _compared(self, outcome: RunOutcome, commit: str) -> Compared:
        """Return the ratio of a commit to the good end, with the reason of its failures where there is none."""
        data = read_run_data(self._store, outcome.run)
        cell_id = next(cell.cell_id for cell in data.manifest.cells if cell.levels["ref"] == commit)
        ratios = compare_cells(data, [self.record.metric]).ratios
        ratio = next((ratio for ratio in ratios if ratio.cell_id == cell_id), None)
        if ratio is None or ratio.ratio is None:
            reasons = [*outcome.failures.values(), *([ratio.reason] if ratio is not None and ratio.reason else [])]
            return Compared(run_id=outcome.run.run_id, reason="; ".join(dict.fromkeys(reasons)))
        return Compared(ratio, outcome.run.run_id)


def stored_requests(requests: Sequence[ServerRequest]) -> tuple[Request, ...]:
    """Return the requests as the record of a search has them. Raises InputError for one that cannot be sent."""
    try:
        return tuple(Request.model_validate({**each.fields, "headers": each.headers}) for each in requests)
    except ValidationError as error:
        raise InputError("a request cannot be sent", why=first_fault(error, Request)) from None


def new_record(good: str, bad: str, *, build: str, run: str, metric: str, options: SearchOptions) -> BisectionRecord:
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
        options=options,
    )


def require_valid(record: BisectionRecord) -> None:
    """Find mistakes in the scenario of a step, before a lab is started. Raises InputError."""
    fields = step_fields(record, record.commits[-1].commit, threshold=None, error_rate=0.01)
    experiment_of(fields, record.options.settings)


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
                say(_opening_line(record))
            record = compare.calibrate(quiet=quiet)
        return continue_search(record, compare, save)
    except KeyboardInterrupt:
        say(how_to_continue)
        raise
    except BenchkitError as error:
        error.add_note(how_to_continue)
        raise


def _opening_line(record: BisectionRecord) -> str:
    steps = units.counted(count_steps(len(record.commits)), "comparison")
    commits = units.counted(len(record.commits), "commit")
    return f"{commits}: about {steps} of at most {units.duration(record.options.duration_s)}"


def _progress_line(record: BisectionRecord) -> str:
    steps: tuple[SearchStep, ...] = (*([record.end] if record.end is not None else []), *record.steps)
    last, names = steps[-1], {commit.commit: commit.subject for commit in record.commits}
    skipped = sum(step.judgement == "skipped" for step in steps)
    total = max(len(steps), count_steps(len(record.commits)) + skipped)
    result = textwrap.shorten(describe_step(last), REASON_WIDTH, placeholder=" …")
    if record.end is not None and record.end.judgement == "bad":
        result += f"; {units.counted(len(record.suspects), 'suspect')}"
    return f"{len(steps)} of about {total}: {last.commit[:12]} ({names[last.commit]}): {result}"
