"""Studies run on the session's lab, at their smallest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.models.trial import TrialRecord
from benchkit.results.store import Store
from benchkit.run.loop import execute
from benchkit.run.plan.planner import make_plan
from benchkit.run.recorder import RunOutcome
from benchkit.scenario.read import read_experiment

OF_THE_STUDY = ("errors", "unequal-responses", "service-restarted", "drifted-host")
"""Checks that are raised by what a study sets up, however busy or fast its machine is; late answers are the machine's."""


@dataclass(frozen=True)
class Ran:
    """A run that ended, as its store has it."""

    store: Store
    outcome: RunOutcome

    def table(self, name: str) -> pd.DataFrame:
        """A table of the run."""
        return benchkit.load(name, store=self.store.path, run_id=self.outcome.run.run_id)

    def check_verdicts(self) -> None:
        """Every trial was judged, by the worst there is against it, and nothing against any is of the servers' making.

        A machine that other work keeps busy may void all of them: that is the truth about it, and no fault of a study.
        """
        reasons = self.table("verdicts")
        worst = {"suspect": 1, "invalid": 2}
        ranks = reasons["severity"].map(worst).groupby(reasons["trial_id"]).max()
        trials = self.trials
        expected = trials["trial_id"].map(ranks).fillna(0).map({0: "valid", 1: "suspect", 2: "invalid"})
        assert trials["verdict"].tolist() == expected.tolist()
        raised = reasons[reasons["check"].isin(OF_THE_STUDY) & ~reasons["seen"].str.contains("timeout")]
        assert raised.empty, "\n".join(raised["text"])

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Its trials, by cell."""
        return self.table("trials").set_index("cell_id").sort_index()

    @cached_property
    def records(self) -> Mapping[str, TrialRecord]:
        """What was kept of its trials, by cell."""
        return {record.cell_id: record for record in self.outcome.run.records()}


RunStudy = Callable[..., Ran]


@pytest.fixture(scope="module")
def run_study(tmp_path_factory: pytest.TempPathFactory) -> RunStudy:
    """Run a scenario on the hosts of an inventory: `run_study(inventory, name, "blocks=1", …)`; all of it has to end."""

    def run(inventory: Inventory, name: str | Path, *settings: str, scale: str = "smoke") -> Ran:
        store = Store(tmp_path_factory.mktemp("store"))
        experiment = read_experiment(str(name), "lab" if scale == "lab" else "smoke", settings)
        with connect_all(inventory) as hosts:
            outcome = execute(make_plan(experiment, hosts), hosts, store, SilentProgress())
        assert (outcome.status, outcome.failures) == ("done", {})
        return Ran(store, outcome)

    return run
