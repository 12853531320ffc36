"""The execution of a bisection: each commit is built, started and compared with the good end."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchkit import units
from benchkit.cli.console import say
from benchkit.cli.display import RunDisplay
from benchkit.cli.run import run_interruptibly
from benchkit.cli.server_runs import compare_servers, experiment_of
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.errors import BenchkitError, HostError, InputError, raise_first
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.models.design import ALPHA_PER_LOOK, StopCondition
from benchkit.models.metrics import METRICS, metric_column
from benchkit.models.run import CALIBRATION
from benchkit.plan.model import PlannedCell
from benchkit.plan.planner import draft_plan
from benchkit.plugins.bisect.search import (
    Compared,
    Search,
    SearchStep,
    count_steps,
    run_search,
    step_error_rate,
)
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import RunOptions
from benchkit.scenario.versus import MAX_BLOCKS, Fields, ServerComparison, compare_refs, load_times
from benchkit.services.git_source import commits_between
from benchkit.store.store import Store

SCENARIO_NAME = "bisect"
REASON_WIDTH = 160
"""Longest result in the line of a step, in characters."""
MIN_BLOCKS = 6
"""Fewest blocks of a comparison: from here on the t interval keeps its coverage (see `benchkit.stats.inference`)."""
USUAL_BLOCKS = 30
"""Blocks for which a step has time: with so many, simulated searches find the right commit (`make bench`)."""
SHORT_S = 1.0
"""Window of the trial that shows whether a commit runs; half of it precedes as warm-up."""
STEP_PRECISION = 0.001
"""Reach of an interval at which a step ends, even if the threshold is within it."""


def commit_fields(search: Search, commits: Sequence[str], comparison: ServerComparison) -> Fields:
    """Return the scenario with these commits as levels of a factor, the first of them the baseline.

    The time of a step is divided among two at most: more commits are only built together, never compared.
    """
    fields = compare_refs(search.build, search.run, commits[:2], search.repository, comparison)
    title = f"Search for the commit that made {search.metric} worse"
    return {**fields, "name": SCENARIO_NAME, "title": title, "factors": {"ref": list(commits)}}


def step_fields(search: Search, commit: str, *, threshold: float | None, error_rate: float) -> Fields:
    """Return the scenario that compares a commit with the good end until their ratio is decided.

    The ratio is decided once its interval at this error rate excludes the threshold. Without a threshold, the interval
    must be as narrow as the precision of the search.
    """
    comparison = search.comparison
    until = StopCondition(
        precision=comparison.precision if threshold is None else STEP_PRECISION,
        metrics=(search.metric,),
        min_blocks=MIN_BLOCKS,
        excludes=threshold,
        alpha=error_rate,
        budget_s=comparison.budget_s,
    )
    return {
        **commit_fields(search, (search.good.commit, commit), comparison),
        **comparison.times(2, USUAL_BLOCKS),
        "blocks": MAX_BLOCKS,
        "until": until.model_dump(mode="json", exclude_none=True),
    }


def short_fields(fields: Mapping[str, Any]) -> Fields:
    """Return the same comparison as one short trial of each server."""
    load = {name: value for name, value in fields["load"].items() if name not in {"at_knee", "held_share", "held_rate"}}
    kept = {name: value for name, value in fields.items() if name not in {"until", "profile", "trace"}}
    times = load_times(SHORT_S, SHORT_S / 2, load["tool"])
    changes = {"name": f"{fields['name']}{CALIBRATION}", "load": {**load, **times}, "design": "blocks", "blocks": 1}
    return {**kept, **changes}


class CommitComparison:
    """Comparisons of one search, on the hosts of one inventory; see `benchkit.plugins.bisect.search.Compare`."""

    def __init__(self, search: Search, inventory: Inventory, store: Store) -> None:
        """Take the search, whose load is adapted by its first comparison."""
        self.search = search
        self._inventory = inventory
        self._store = store

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        """Build a commit, start it once, and compare it with the good end.

        Raises BenchkitError where an end does not build, HostError where the good end does not run or hosts fail.
        """
        cells = self._build((*judged, commit))
        built = cells[-1]
        if built.unsupported is not None:
            if threshold is None:
                raise BenchkitError("the bad end does not build", where=commit[:12], why=built.unsupported)
            return Compared(reason=built.unsupported)
        if built.same_as is not None:
            return Compared(
                same_as=next(str(cell.spec.levels["ref"]) for cell in cells if cell.cell_id == built.same_as)
            )
        if threshold is not None and (failures := self._short_trial(commit)):
            why = "; ".join(failures.values())
            if self._short_trial(self.search.good.commit):
                raise HostError("the good end no longer runs", why=why)
            return Compared(reason=why)
        level = min(step_error_rate(len(self.search.commits)), ALPHA_PER_LOOK)

        def make_fields(comparison: ServerComparison) -> Fields:
            search = self.search.model_copy(update={"comparison": comparison})
            return step_fields(search, commit, threshold=threshold, error_rate=level)

        outcome, comparison = compare_servers(
            make_fields,
            self.search.comparison,
            self._inventory,
            self._store,
            settings=self.search.settings,
            quiet=True,
        )
        _require_hosts(outcome)
        self.search = self.search.model_copy(update={"comparison": replace(comparison, spent_s=0.0)})
        data = read_run_data(self._store, outcome.run)
        cell_id = next(cell.cell_id for cell in data.manifest.cells if cell.levels["ref"] == commit)
        ratios = compare_cells(data, [self.search.metric]).ratios
        ratio = next((ratio for ratio in ratios if ratio.cell_id == cell_id), None)
        if ratio is None or ratio.ratio is None:
            reasons = [*outcome.failures.values(), *([ratio.reason] if ratio is not None and ratio.reason else [])]
            return Compared(run_id=outcome.run.run_id, reason="; ".join(dict.fromkeys(reasons)))
        return Compared(ratio, outcome.run.run_id)

    def _build(self, commits: Sequence[str]) -> tuple[PlannedCell, ...]:
        """Build commits, the good end first, unless they are built already; return their cells.

        The cell of one that does not build is unsupported. Raises BenchkitError where the good end does not build.
        """
        fields = commit_fields(self.search, commits, self.search.comparison)
        experiment = experiment_of(short_fields(fields), self.search.settings)
        with connect_all(self._inventory) as hosts:
            plan, errors = draft_plan(experiment, hosts)
        good = plan.cells[0]
        if good.unsupported is not None:
            raise BenchkitError("the good end does not build", where=commits[0][:12], why=good.unsupported)
        raise_first(errors)
        return plan.cells

    def _short_trial(self, commit: str) -> Mapping[str, str]:
        """Run a short trial of a commit, and return why it failed, by trial."""
        fields = commit_fields(self.search, (commit,), self.search.comparison)
        experiment = experiment_of(short_fields(fields), self.search.settings)
        display = RunDisplay(quiet=True)
        outcome = run_interruptibly(experiment, self._inventory, self._store, display, RunOptions(), is_resumable=False)
        _require_hosts(outcome)
        return outcome.failures


def _require_hosts(outcome: RunOutcome) -> None:
    """Raise HostError where a host is lost or not restored."""
    if faults := {**outcome.not_restored, **outcome.restore_unconfirmed}:
        why = "; ".join(f"{host}: {reason}" for host, reason in faults.items())
        raise HostError("a host is lost or not restored", why=why, hint="benchkit hosts restore")


def new_search(
    good: str, bad: str, *, build: str, run: str, metric: str, comparison: ServerComparison, settings: Sequence[str]
) -> Search:
    """Return a search in the repository of the present folder. Raises InputError for mistakes in its scenario, too."""
    metric = metric_column(metric)
    if metric not in METRICS or METRICS[metric].better is None:
        known = ", ".join(name for name, column in METRICS.items() if column.better is not None)
        raise InputError(
            f"{metric!r} is not a column of `trials` with a better direction",
            where="--metric",
            why=f"they are: {known}",
        )
    start, commits = commits_between(Path.cwd(), good, bad)
    search = Search(
        repository=str(Path.cwd()),
        good=start,
        commits=commits,
        metric=metric,
        build=build,
        run=run,
        comparison=comparison,
        settings=tuple(settings),
    )
    experiment_of(step_fields(search, commits[-1].commit, threshold=None, error_rate=0.01), search.settings)
    return search


def bisect_commits(search: Search, inventory: Inventory, store: Store, *, quiet: bool) -> Search:
    """Run a search on the hosts of an inventory, with a line for each step unless `quiet`."""
    notify: Callable[[str], None] = (lambda _: None) if quiet else say
    steps = units.counted(count_steps(len(search.commits)), "comparison")
    most = units.duration(search.comparison.budget_s)
    notify(f"{units.counted(len(search.commits), 'commit')}: about {steps} of at most {most}")
    compare = CommitComparison(search, inventory, store)
    return run_search(search, compare, lambda state: notify(_progress_line(state)))


def _progress_line(search: Search) -> str:
    steps: tuple[SearchStep, ...] = (*([search.end] if search.end is not None else []), *search.steps)
    skipped = sum(step.judgement == "skipped" for step in steps)
    total = max(len(steps), count_steps(len(search.commits)) + skipped)
    result = textwrap.shorten(str(steps[-1]), REASON_WIDTH, placeholder=" …")
    if search.end is not None and search.end.judgement == "bad":
        result += f"; {units.counted(len(search.suspects), 'suspect')}"
    return f"{len(steps)} of about {total}: {search.titled(steps[-1].commit)}: {result}"
