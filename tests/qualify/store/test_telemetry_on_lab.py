"""The telemetry of real trials compared with the counts of the load tool, the services and the kernel."""

from __future__ import annotations

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.models.telemetry import TELEMETRY_METRICS, generator_service
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
    one_by_one = ["blocks=1", "design=blocks", "load.tool=wrk"]
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


@pytest.mark.parametrize("stack", ["go", "nginx-go"])
def test_cpu_time_equals_that_read_before_and_after_the_load(
    ran: tuple[Store, dict[str, TrialRecord]], stack: str
) -> None:
    store, records = ran
    samples = TrialSamples(store, records[stack])
    for service in records[stack].services:
        assert service.cpu_s is not None
        assert samples.increase("cpu_s_total", service.name) == pytest.approx(service.cpu_s, abs=0.1, rel=0.05)


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


def test_the_network_transferred_at_least_the_responses(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    trials = benchkit.load("trials", store=store.path)
    for stack in ("go", "nginx-go"):
        record, samples = records[stack], TrialSamples(store, records[stack])
        (requests,) = trials[trials["trial_id"] == record.trial_id]["requests"]
        answered = requests * (record.probes[0].header_bytes + record.probes[0].body_bytes)
        sent = samples.increase("net_sent_bytes_total", None)
        assert answered <= sent
        assert samples.increase("net_sent_packets_total", None) >= requests


def test_the_requested_connections_are_established_in_three_samples(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    for stack, entry in (("go", "app"), ("nginx-go", "front")):
        (counted,) = TrialSamples(store, records[stack]).series("connections_established", entry)
        assert list(counted["instance"].unique()) == ["8080"]
        assert len(counted) == 3
        # On a busy machine a probe may still be open, a fifth of a second after it was due.
        assert counted["value"].between(CONNECTIONS, CONNECTIONS + PROBES).all()
        assert counted["t_s"].between(0, records[stack].window_s).all()


def test_hosts_are_sampled_from_before_the_load_until_after_it(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    for stack in ("go", "nginx-go"):
        samples = TrialSamples(store, records[stack])
        for host in ("sut", "load"):
            (load,) = samples.series("load1", None, host)
            assert load["t_s"].iloc[0] < -WARM_UP_S
            assert load["t_s"].iloc[-1] >= samples.window_s
            assert load["t_s"].is_monotonic_increasing
        (quota,) = [watch.cpu_quota for watch in records[stack].watched if watch.host == "sut"]
        assert quota is None, "the session's lab has none"


def test_counters_only_grow_and_all_metrics_are_known(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    rows = benchkit.load("telemetry", store=ran[0].path).sort_values("t_s")
    assert set(rows["metric"]) <= TELEMETRY_METRICS.keys()
    assert (rows["unit"] == rows["metric"].map(lambda name: TELEMETRY_METRICS[name].unit)).all()
    for key, each in rows.groupby(["trial_id", "host", "service", "metric", "instance"], dropna=False):
        assert isinstance(key, tuple)
        if TELEMETRY_METRICS[str(key[3])].grows:
            assert each["value"].is_monotonic_increasing, key


def test_threads_of_generators_are_sampled(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    record = records["go"]
    threads = TrialSamples(store, record).series("thread_cpu_s_total", generator_service(1), "load")
    assert len(threads) == 2, "wrk's own and the one that puts the load on"
    busiest = max(each["value"].iloc[-1] for each in threads)
    assert 0 < busiest <= record.generators[0].cpu_s + 0.01
    assert {each["role"].iloc[0] for each in threads} == {"load"}
    assert (record.generators[0].threads, record.generators[0].cpus != ()) == (1, True)


def test_processes_of_services_are_recorded_before_and_after_the_window(
    ran: tuple[Store, dict[str, TrialRecord]],
) -> None:
    for service in ran[1]["nginx-go"].services:
        assert service.pids_before == service.pids_after
        assert service.pid in [pid for pid, _ in service.pids_before]
        assert len(service.pids_before) == (1 if service.name == "app" else 1 + (service.parallelism or 0))
        assert service.cpus


def test_a_scenario_can_turn_telemetry_off(ran: tuple[Store, dict[str, TrialRecord]]) -> None:
    store, records = ran
    assert records["unwatched"].watched == ()
    assert TrialSamples(store, records["unwatched"]).rows.empty
