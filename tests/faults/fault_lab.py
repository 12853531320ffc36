"""Labs for fault injection: real runs on them, and the findings about their trials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchkit.document import parse_document
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.verdicts import judge_run
from benchkit.lab.lab import Lab
from benchkit.plan.model import RunPlan
from benchkit.run.events import Event, TrialBegun, TrialJudged, TrialRetried, TrialWithoutResult
from benchkit.run.judge import rebuild_tables
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load
from benchkit.store.verification import write_checksums
from tests.support.run.opening import open_run

BASE: Mapping[str, Any] = {
    "name": "faults",
    "title": "A server with a fault",
    "question": "Do the checks notice it?",
    "stacks": {"go": {"entry": "app", "services": {"app": {"backend": "nethttp", "listen": 8080}}}},
    "load": {"tool": "wrk", "connections": 64, "threads": 1, "duration_s": 1},
    "telemetry": {"interval_s": 0.1},
    "blocks": 1,
}
"""The smallest experiment: Go's net/http on its own core, and windows of a second."""


@dataclass(frozen=True)
class JudgedTrial:
    """A trial with its findings and skipped checks."""

    run_id: str
    trial_id: str
    cell_id: str
    block: int
    kind: str
    findings: Mapping[str, str]
    """Texts, by check."""
    skipped: Mapping[str, str]
    window_s: tuple[float, float]
    """Start and end of its window by `time.monotonic()`, the clock that a lab's hosts share."""


class TrialHook:
    """Actions at the start and end of each trial of a run; none by default."""

    def __init__(self, before: Callable[[PlannedTrial], None] = lambda _: None) -> None:
        self._before = before

    def begin(self, planned_trial: PlannedTrial) -> None:
        """Handle the start of a trial."""
        self._before(planned_trial)

    def end(self, planned_trial: PlannedTrial) -> None:
        """Handle the end of a trial."""


class HookObserver:
    """Observer of a run that calls a hook for each trial."""

    def __init__(self, hook: TrialHook) -> None:
        self._hook = hook
        self.failed: list[str] = []

    def show(self, event: Event) -> None:
        """Call the hook at the start and the end of a trial, and record why one failed.

        A trial may only be retried where its load tool hung, as on a crowded host.
        """
        match event:
            case TrialBegun(trial):
                self._hook.begin(trial)
            case TrialJudged(trial):
                self._hook.end(trial)
            case TrialWithoutResult(trial, reason):
                self._hook.end(trial)
                self.failed += [] if reason is None else [reason]
            case TrialRetried(trial, reason):
                assert "and printed no result" in reason, f"{trial}: {reason}"


@dataclass
class FaultLab:
    """A lab with its hosts connected, and a store for its runs."""

    lab: Lab
    hosts: Hosts
    folder: Path
    failed: list[str] = field(default_factory=list)
    """Reasons why trials failed, of all runs."""

    @property
    def store(self) -> Store:
        """Store of its runs."""
        return Store(self.folder / "store")

    def run(
        self,
        scenario: Mapping[str, Any],
        *,
        amend_plan: Callable[[RunPlan], RunPlan] = lambda plan: plan,
        hook: TrialHook | None = None,
        edit_raw_files: Callable[[RunFolder], None] | None = None,
    ) -> list[JudgedTrial]:
        """Run a scenario over the base scenario, and return its trials with their findings, in the order of their ends.

        `amend_plan` changes its plan, `hook` is called for each trial, `edit_raw_files` may change its raw files, from
        which all tables are then rebuilt.
        """
        path = self.folder / "faults.yaml"
        path.write_text(json.dumps(BASE))
        document = parse_document(path.read_text(), "faults").overridden(parse_document(json.dumps(scenario), "fault"))
        path.write_text(json.dumps(document.data))
        experiment = read_experiment(str(path))
        watcher = HookObserver(hook or TrialHook())
        with open_run(experiment, self.hosts, self.store, amend=amend_plan) as opened:
            assert [cell.unsupported for cell in opened.plan.cells] == [None] * len(opened.plan.cells)
            outcome = execute(opened, watcher.show)
        assert outcome.status == ("failed" if watcher.failed else "done"), outcome.failures
        self.failed += watcher.failed
        if edit_raw_files is not None:
            edit_raw_files(outcome.run)
            write_checksums(self.store, outcome.run)  # else the edited output is damage, not a tool's own word
            rebuild_tables(self.store, outcome.run)
        return list(self._judged(outcome.run))

    def judge_together(self, kept: Sequence[JudgedTrial]) -> list[JudgedTrial]:
        """Return these trials of one run, with the run checks applied to them alone, unaffected by others."""
        if not kept:
            return []
        run = self.store.run(kept[0].run_id)
        tables = {
            name: load(name, store=self.store.path, run_id=run.run_id) for name in ("trials", "verdicts", "hosts")
        }
        rows, verdicts = tables["trials"], tables["verdicts"]
        found = judge_run(
            RunEvidence(run.manifest(), rows[rows["trial_id"].isin([each.trial_id for each in kept])], tables["hosts"])
        )
        by_trial = verdicts[verdicts["scope"] == "trial"]
        return [
            replace(
                each,
                findings={
                    **dict(by_trial.loc[by_trial["trial_id"] == each.trial_id, ["check", "text"]].to_numpy().tolist()),
                    **{one.check: one.text for one in found.verdicts if one.trial_id == each.trial_id},
                },
            )
            for each in kept
        ]

    def _judged(self, run: RunFolder) -> Iterator[JudgedTrial]:
        tables = {
            name: load(name, store=self.store.path, run_id=run.run_id) for name in ("trials", "verdicts", "unchecked")
        }
        texts: dict[str, dict[str, dict[str, str]]] = {"verdicts": {}, "unchecked": {}}
        for table, column in (("verdicts", "text"), ("unchecked", "why")):
            for trial_id, check, text in zip(
                *(tables[table][name] for name in ("trial_id", "check", column)), strict=True
            ):
                texts[table].setdefault(trial_id, {})[check] = text
        trials = tables["trials"].sort_values(["block", "position"])
        windows = {each.trial_id: each.watched[0].window_ns for each in run.records()}
        columns = (trials[name] for name in ("trial_id", "cell_id", "block", "kind"))
        for trial_id, cell_id, block, kind in zip(*columns, strict=True):
            findings, skipped = (texts[table].get(trial_id, {}) for table in ("verdicts", "unchecked"))
            start_ns, end_ns = windows[trial_id]
            yield JudgedTrial(
                run.run_id, trial_id, cell_id, int(block), kind, findings, skipped, (start_ns / 1e9, end_ns / 1e9)
            )


@contextmanager
def connected_lab(lab: Lab, folder: Path) -> Iterator[FaultLab]:
    """Connect to the hosts of a lab."""
    with ExitStack() as stack:
        hosts = stack.enter_context(connect_all(lab.inventory()))
        yield FaultLab(lab, hosts, folder)
