"""The telemetry of real trials compared with the counts of the load tool, the services and the kernel."""

from __future__ import annotations

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.store.store import Store
from tests.support.run.opening import open_run

CONNECTIONS = 16
PROBES = 1
"""Requests of benchkit itself within the window: in its middle."""
WARM_UP_S = 1.0


def run(hosts: Hosts, store: Store, *settings: str) -> dict[str, TrialRecord]:
    """Run one block of the shipped scenario with wrk, its trials one by one, and return them by stack."""
    one_by_one = ["blocks=1", "design=blocks", "load.tool=wrk", "load.rate=null"]
    experiment = read_experiment("quickstart", "smoke", [*one_by_one, *settings])
    with open_run(experiment, hosts, store) as opened:
        outcome = execute(opened)
    assert (outcome.status, outcome.failures) == ("done", {})
    return {str(record.levels["stack"]): record for record in outcome.run.records()}


@pytest.fixture(scope="module")
def ran(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, TrialRecord]]:
    store = Store(tmp_path_factory.mktemp("store"))
    with connect_all(lab.inventory()) as hosts:
        watched = run(hosts, store, "telemetry.interval_s=0.2", "load.duration_s=2")
        unwatched = run(hosts, store, "telemetry=off", "load.warmup_s=0", "factors.stack=[go]")
    return store, {**watched, "unwatched": unwatched["go"]}


class TrialSamples:
    """The telemetry of one trial."""

    def __init__(self, store: Store, record: TrialRecord) -> None:
        rows = benchkit.load("telemetry", store=store.path)
        self.rows = rows[rows["trial_id"] == record.trial_id]
        self.window_s = record.window_s

    def series(self, metric: str, service: str | None, host: str = "sut") -> list[pd.DataFrame]:
        """Return the samples of a metric, by instance."""
        of = self.rows["service"].isna() if service is None else self.rows["service"] == service
        found = self.rows[(self.rows["metric"] == metric) & of & (self.rows["host"] == host)]
        return [each for _, each in found.groupby("instance", dropna=False)]

    def increase(self, metric: str, service: str | None) -> float:
        """Return the increase of a counter from the last sample before the window to the first one after it."""
        total = 0.0
        for each in self.series(metric, service):
            before, after = each[each["t_s"] <= 0], each[each["t_s"] >= self.window_s]
            total += after["value"].iloc[0] - before["value"].iloc[-1]
        return total


@pytest.mark.parametrize(("stack", "services"), [("go", ["app"]), ("nginx-go", ["app", "front"])])
def test_servers_count_the_requests_that_the_tool_counts(
    ran: tuple[Store, dict[str, TrialRecord]], stack: str, services: list[str]
) -> None:
    store, records = ran
    trials = benchkit.load("trials", store=store.path)
    (requests,) = trials[trials["trial_id"] == records[stack].trial_id]["requests"]
    for service in services:
        served = TrialSamples(store, records[stack]).increase("requests_total", service)
        uncounted = CONNECTIONS + PROBES
        assert 0 <= served - requests <= uncounted, "the server alone counts the probe, and what the end cut off"


def test_a_scenario_can_turn_telemetry_off(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    assert records["unwatched"].watched == ()
    assert TrialSamples(store, records["unwatched"]).rows.empty
