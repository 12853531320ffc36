"""The comparison of a commit with the good end of a search: build it, start it, run blocks until it is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.plan.model import PlannedCell
    from benchkit.plugins.bisect.loop import Compared
    from benchkit.plugins.bisect.record import BisectionRecord
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.experiment import Experiment
    from benchkit.store.store import Store


class CommitComparison:
    """Comparisons of one search, on the hosts of one inventory; see `benchkit.plugins.bisect.loop.Compare`."""

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
        from benchkit.plugins.bisect.scenario import commit_fields, comparison_of

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
        from benchkit.plugins.bisect.loop import Compared
        from benchkit.plugins.bisect.scenario import step_fields
        from benchkit.plugins.bisect.search import step_error_rate

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
        from benchkit.plugins.bisect.scenario import commit_fields, comparison_of

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
        """Run a short trial of a commit; return its failures."""
        from benchkit.cli.calibration import calibration_of
        from benchkit.plugins.bisect.scenario import commit_fields, comparison_of

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
        from benchkit.plugins.bisect.loop import Compared

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
