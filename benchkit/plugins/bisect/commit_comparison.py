"""The comparison of a commit with the good end of a search: build it, start it, run blocks until it is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchkit.models.design import StopCondition
from benchkit.plugins.bisect.record import BisectionRecord
from benchkit.scenario.versus import (
    MAX_BLOCKS,
    ServerComparison,
    ServerRequest,
    compare_refs,
    design_of,
    load_times,
    warm_up_s,
    window_s,
)

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.plan.model import PlannedCell
    from benchkit.plugins.bisect.search import Compared
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.experiment import Experiment
    from benchkit.store.store import Store

SCENARIO_NAME = "bisect"
MIN_BLOCKS = 6
"""Fewest blocks of a comparison: from here on the t interval covers its share (see `benchkit.stats.inference`)."""
USUAL_BLOCKS = 30
"""Blocks for which a step has time: with so many, simulated searches find the right commit (`make bench`)."""
STEP_PRECISION = 0.001
"""Reach of an interval below which more blocks are of no use, wherever the threshold is."""


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


def commit_fields(record: BisectionRecord, commits: Sequence[str], comparison: ServerComparison) -> dict[str, object]:
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
    """Return the fields of a scenario that compares a commit with the good end until that is decided.

    With a threshold the comparison ends once the interval with this error rate excludes it; without one, at the
    precision of the search. Raises InputError where the time of a step is too short.
    """
    comparison = comparison_of(record)
    fields = commit_fields(record, (record.good.commit, commit), comparison)
    load = fields["load"]
    if not isinstance(load, dict):
        raise TypeError("the load of a scenario is a mapping")
    until = StopCondition(
        precision=comparison.precision if threshold is None else STEP_PRECISION,
        metrics=(record.metric,),
        min_blocks=MIN_BLOCKS,
        excludes=threshold,
        alpha=error_rate,
        budget_s=comparison.budget_s,
    )
    window = window_s(
        2,
        comparison.budget_s,
        USUAL_BLOCKS,
        connections=comparison.connections,
        tool=comparison.tool,
        slice_s=comparison.slice_s,
    )
    return {
        **fields,
        "load": {**load, **load_times(window, warm_up_s(window), comparison.tool)},
        "design": design_of(window, comparison),
        "blocks": MAX_BLOCKS,
        "until": until.model_dump(mode="json", exclude_none=True),
    }


class CommitComparison:
    """Comparisons of one search, on the hosts of one inventory; see `benchkit.plugins.bisect.search.Compare`."""

    def __init__(self, record: BisectionRecord, inventory: Inventory, store: Store) -> None:
        """Take the search, whose options hold for all comparisons but for what `calibrate` adapts."""
        self.record = record
        self._inventory = inventory
        self._store = store

    def calibrate(self, *, quiet: bool) -> BisectionRecord:
        """Return the search with a load at which the load tool is not the limit for either end.

        Raises BenchkitError where an end does not build, HostError where one does not run.
        """
        from benchkit.cli.calibration import ADAPTED, calibrate
        from benchkit.errors import BenchkitError

        ends = (self.record.good.commit, self.record.commits[-1].commit)
        bad = self._build(ends)[-1]
        if bad.unsupported is not None:
            raise BenchkitError("the bad end does not build", where=ends[1][:12], why=bad.unsupported)
        if bad.same_as is None:
            make_fields = partial(commit_fields, self.record, ends)
            found = calibrate(
                make_fields,
                comparison_of(self.record),
                self._inventory,
                self._store,
                settings=self.record.options.settings,
                quiet=quiet,
            )
            options = self.record.options.model_copy(update={name: getattr(found, name) for name in ADAPTED})
            self.record = self.record.model_copy(update={"options": options})
        return self.record

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        """Build a commit, start it once, and compare it with the good end.

        Raises BenchkitError where the good end does not build, HostError where hosts fail.
        """
        from benchkit.cli.calibration import experiment_of
        from benchkit.models.design import ALPHA_PER_LOOK
        from benchkit.plugins.bisect.search import Compared, step_error_rate

        cells = self._build((*judged, commit))
        built = cells[-1]
        if built.unsupported is not None:
            return Compared(reason=built.unsupported)
        if built.same_as is not None:
            return Compared(same_as=next(_commit(cell) for cell in cells if cell.cell_id == built.same_as))
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
        from benchkit.cli.calibration import calibration_of
        from benchkit.errors import BenchkitError, raise_first
        from benchkit.hosts.connections import connect_all
        from benchkit.plan.planner import make_plan

        fields = commit_fields(self.record, commits, comparison_of(self.record))
        experiment = calibration_of(fields, self.record.options.settings)
        with connect_all(self._inventory) as hosts:
            plan = make_plan(experiment, hosts)
        good = plan.cells[0]
        if good.unsupported is not None:
            raise BenchkitError("the good end does not build", where=commits[0][:12], why=good.unsupported)
        raise_first(plan.obstacles)
        return plan.cells

    def _start_failure(self, commit: str) -> str | None:
        """Run a short trial of a commit; return why it failed, or None.

        Raises HostError where the good end fails as well, and where hosts are not restored.
        """
        from benchkit.errors import HostError

        failures = self._short_trial(commit)
        if failures and self._short_trial(self.record.good.commit):
            raise HostError("the good end does not run any more", why="; ".join(failures.values()))
        return "; ".join(failures.values()) or None

    def _short_trial(self, commit: str) -> Mapping[str, str]:
        from benchkit.cli.calibration import calibration_of

        fields = commit_fields(self.record, (commit,), comparison_of(self.record))
        return self._run(calibration_of(fields, self.record.options.settings)).failures

    def _run(self, experiment: Experiment) -> RunOutcome:
        """Run a scenario. Raises HostError where a host is lost or not restored."""
        from benchkit.cli.progress import SilentProgress
        from benchkit.cli.run import run_experiment
        from benchkit.errors import HostError

        outcome = run_experiment(
            experiment,
            self._inventory,
            self._store,
            seed=None,
            quiet=True,
            show=lambda _: SilentProgress(),
            resumable=False,
        )
        if faults := {**outcome.not_restored, **outcome.restore_unconfirmed}:
            why = "; ".join(f"{host}: {reason}" for host, reason in faults.items())
            raise HostError("a host is lost or not restored", why=why, hint="benchkit hosts restore")
        return outcome

    def _compared(self, outcome: RunOutcome, commit: str) -> Compared:
        """Return the ratio of a commit to the good end, with the reason of its failures where there is none."""
        from benchkit.comparison.compare import compare_cells
        from benchkit.comparison.run_data import read_run_data
        from benchkit.plugins.bisect.search import Compared

        data = read_run_data(self._store, outcome.run)
        cell_id = next(cell.cell_id for cell in data.manifest.cells if cell.levels["ref"] == commit)
        ratios = compare_cells(data, [self.record.metric]).ratios
        ratio = next((ratio for ratio in ratios if ratio.cell_id == cell_id), None)
        if ratio is None or ratio.ratio is None:
            reasons = [*outcome.failures.values(), *([ratio.reason] if ratio is not None and ratio.reason else [])]
            return Compared(run_id=outcome.run.run_id, reason="; ".join(dict.fromkeys(reasons)))
        return Compared(ratio, outcome.run.run_id)


def _commit(cell: PlannedCell) -> str:
    return str(cell.spec.levels["ref"])
