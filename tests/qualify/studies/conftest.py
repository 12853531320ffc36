"""Runs of studies on the session's lab, at their smallest scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.models.design import compared_cell
from benchkit.models.trial import TrialRecord
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.store.store import Store
from tests.support.cli.fixtures import cli, environment
from tests.support.run.opening import open_run

STUDY_CHECKS = ("errors", "unequal-responses", "service-restarted", "drifted-host")
"""Checks whose findings are due to the study itself, and not to a busy or slow machine; timeouts are due to the
machine."""
ERRORS = ["errors_connect", "errors_read", "errors_write", "non_2xx"]


@dataclass(frozen=True)
class StudyRun:
    """A finished run in its store."""

    store: Store
    outcome: RunOutcome

    def table(self, name: str) -> pd.DataFrame:
        """Load a table of the run."""
        return benchkit.load(name, store=self.store.path, run_id=self.outcome.run.run_id)

    def check_answers(self) -> None:
        """Assert that every supported cell ran, that all probes were answered and no request failed."""
        self.check_verdicts()
        planned = {
            compared_cell(cell.cell_id) for cell in self.outcome.run.manifest().cells if cell.unsupported is None
        }
        assert set(self.trials.index) == planned
        assert set(self.trials["probe_status"]) == {200}
        assert (self.trials[ERRORS].fillna(0) == 0).all(axis=None)

    def check_verdicts(self) -> None:
        """Assert that each trial has its worst finding's verdict, and that no finding is due to the servers.

        Findings about a busy machine are correct, and no fault of the study.
        """
        reasons = self.table("verdicts")
        worst = {"suspect": 1, "invalid": 2}
        ranks = reasons["severity"].map(worst).groupby(reasons["trial_id"]).max()
        trials = self.trials
        expected = trials["trial_id"].map(ranks).fillna(0).map({0: "valid", 1: "suspect", 2: "invalid"})
        assert trials["verdict"].tolist() == expected.tolist()
        findings = reasons[reasons["check"].isin(STUDY_CHECKS) & ~reasons["seen"].str.contains("timeout")]
        assert findings.empty, "\n".join(findings["text"])

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Trials of the run, by cell."""
        return self.table("trials").set_index("cell_id").sort_index()

    @cached_property
    def records(self) -> Mapping[str, TrialRecord]:
        """Records of the trials, by cell."""
        return {record.cell_id: record for record in self.outcome.run.records()}


RunStudy = Callable[..., StudyRun]


@pytest.fixture(scope="module")
def run_study(tmp_path_factory: pytest.TempPathFactory) -> RunStudy:
    """Run a scenario on an inventory's hosts, `run_study(inventory, name, "blocks=1", …)`; every trial must succeed."""

    def run(inventory: Inventory, name: str, *settings: str) -> StudyRun:
        store = Store(tmp_path_factory.mktemp("store"))
        experiment = read_experiment(name, "smoke", settings)
        with connect_all(inventory) as hosts, open_run(experiment, hosts, store) as opened:
            outcome = execute(opened)
        assert (outcome.status, outcome.failures) == ("done", {})
        return StudyRun(store, outcome)

    return run
