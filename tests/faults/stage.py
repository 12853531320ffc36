"""Where faults are injected: labs, real runs on them, and what the checks said of their trials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.analysis.verdicts.judge import judge_run
from benchkit.document import parse_document
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import load
from benchkit.run.judge import rebuild_tables
from benchkit.run.loop import execute
from benchkit.run.plan.model import RunPlan
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial

BASE: Mapping[str, Any] = {
    "name": "faults",
    "title": "A server with a fault",
    "question": "Do the checks notice it?",
    "stacks": {"go": {"entry": "app", "services": {"app": {"backend": "nethttp", "listen": 8080}}}},
    "load": {"tool": "wrk", "connections": 64, "threads": 1, "duration_s": 1},
    "telemetry": {"interval_s": 0.1},
    "blocks": 1,
}
"""The smallest experiment: Go's net/http on a core of its own, and windows of a second."""


@dataclass(frozen=True)
class Judged:
    """A trial, and the checks that raised something against it, or could not be made."""

    run_id: str
    trial_id: str
    cell_id: str
    block: int
    kind: str
    raised: Mapping[str, str]
    """Text by check."""
    unchecked: Mapping[str, str]
    window_s: tuple[float, float]
    """Start and end of its window by `time.monotonic()`: a lab's hosts have the clock of their machine."""


class Meanwhile:
    """What happens around each trial of a run; nothing, unless it is given or made otherwise."""

    def __init__(self, before: Callable[[PlannedTrial], None] = lambda _: None) -> None:
        self._before = before

    def begin(self, planned_trial: PlannedTrial) -> None:
        """A trial begins."""
        self._before(planned_trial)

    def end(self, planned_trial: PlannedTrial) -> None:
        """A trial ended."""


class Told:
    """A watcher of a run that has something happen meanwhile."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        self._meanwhile = meanwhile
        self.failed: list[str] = []

    def notify(self, text: str) -> None:
        """A stage of the run begins."""

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """No run of this suite is."""

    def block_interrupted(self, block: int) -> None:
        """No pause is made."""

    def trial_started(self, planned_trial: PlannedTrial) -> None:
        """A trial begins."""
        self._meanwhile.begin(planned_trial)

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str) -> None:  # noqa: ARG002 - the protocol's
        """A trial ended."""
        self._meanwhile.end(planned_trial)

    def trial_failed(self, planned_trial: PlannedTrial, why: str) -> None:
        """A trial failed: now and then siege does not end."""
        self._meanwhile.end(planned_trial)
        self.failed.append(why)

    def trial_retrying(self, planned_trial: PlannedTrial, why: str) -> None:
        """A trial failed, and would be tried again."""
        raise AssertionError(f"{planned_trial}: {why}")


@dataclass
class Stage:
    """A lab with its hosts connected, and a store for what is run on it."""

    lab: Lab
    hosts: Hosts
    folder: Path
    failed: list[str] = field(default_factory=list)
    """Why trials failed, of all runs."""

    @property
    def store(self) -> Store:
        """Where its runs are."""
        return Store(self.folder / "store")

    def run(
        self,
        scenario: Mapping[str, Any],
        *,
        amend: Callable[[RunPlan], RunPlan] = lambda plan: plan,
        meanwhile: Meanwhile | None = None,
        doctor: Callable[[RunFolder], None] | None = None,
    ) -> list[Judged]:
        """Run a scenario laid over the base, and say what the checks said; in the order of the trials that ended.

        `amend` changes its plan, `meanwhile` is told of each trial, `doctor` may change its raw files, from which
        everything is then made again.
        """
        path = self.folder / "faults.yaml"
        path.write_text(json.dumps(BASE))
        document = parse_document(path.read_text(), "faults").overridden(parse_document(json.dumps(scenario), "fault"))
        path.write_text(json.dumps(document.data))
        plan = amend(make_plan(read_experiment(str(path)), self.hosts))
        assert [cell.unsupported for cell in plan.cells] == [None] * len(plan.cells)
        watcher = Told(meanwhile or Meanwhile())
        outcome = execute(plan, self.hosts, self.store, watcher)
        assert outcome.status == ("failed" if watcher.failed else "done"), outcome.failures
        self.failed += watcher.failed
        if doctor is not None:
            doctor(outcome.run)
            rebuild_tables(self.store, outcome.run)
        return list(self._judged(outcome.run))

    def beside_each_other(self, kept: Sequence[Judged]) -> list[Judged]:
        """These trials of one run, with what they show beside each other alone: the others say nothing of their cells."""
        if not kept:
            return []
        run = self.store.run(kept[0].run_id)
        tables = {
            name: load(name, store=self.store.path, run_id=run.run_id) for name in ("trials", "verdicts", "hosts")
        }
        rows, said = tables["trials"], tables["verdicts"]
        found = judge_run(
            RunEvidence(run.manifest(), rows[rows["trial_id"].isin([each.trial_id for each in kept])], tables["hosts"])
        )
        by_trial = said[said["scope"] == "trial"]
        return [
            replace(
                each,
                raised={
                    **dict(by_trial.loc[by_trial["trial_id"] == each.trial_id, ["check", "text"]].to_numpy().tolist()),
                    **{one.check: one.finding.text for one in found[each.trial_id].findings},
                },
            )
            for each in kept
        ]

    def _judged(self, run: RunFolder) -> Iterator[Judged]:
        tables = {
            name: load(name, store=self.store.path, run_id=run.run_id) for name in ("trials", "verdicts", "unchecked")
        }
        said: dict[str, dict[str, dict[str, str]]] = {"verdicts": {}, "unchecked": {}}
        for table, column in (("verdicts", "text"), ("unchecked", "why")):
            for trial_id, check, text in zip(
                *(tables[table][name] for name in ("trial_id", "check", column)), strict=True
            ):
                said[table].setdefault(trial_id, {})[check] = text
        trials = tables["trials"].sort_values(["block", "position"])
        windows = {each.trial_id: each.watched[0].window_ns for each in run.records()}
        columns = (trials[name] for name in ("trial_id", "cell_id", "block", "kind"))
        for trial_id, cell_id, block, kind in zip(*columns, strict=True):
            raised, unchecked = (said[table].get(trial_id, {}) for table in ("verdicts", "unchecked"))
            start_ns, end_ns = windows[trial_id]
            yield Judged(
                run.run_id, trial_id, cell_id, int(block), kind, raised, unchecked, (start_ns / 1e9, end_ns / 1e9)
            )


@contextmanager
def staged(lab: Lab, folder: Path) -> Iterator[Stage]:
    """A lab with its hosts connected."""
    with ExitStack() as stack:
        hosts = stack.enter_context(connect_all(lab.inventory()))
        yield Stage(lab, hosts, folder)
