"""The studies of servers beside each other, run for real at their smallest: what was sent, counted, and at the limit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.stack.goserver import GoServerOptions
from benchkit.stack.registry import BACKENDS
from tests.studies.conftest import Ran, RunStudy

HEADER_AND_BODY = 141 + 12
SLOW_LINK_BPS = 20e6
LARGE_BODY = 4096
"""Some 580 answers a second with such a body fill the link, which any server here can; one of 12 bytes would take 11,000."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        any(shutil.which(program) is None for program in ("wrk", "node")), reason="wrk or node is not installed"
    ),
]


def check_counts(ran: Ran) -> None:
    """Every cell answered, alike, and counted what the tool counted."""
    trials = ran.trials
    assert set(trials["probe_status"]) == {200}
    assert set(trials["probe_body_bytes"]) == {12}
    assert len(set(trials["probe_body_sha256"])) == 1
    assert (trials[["errors_connect", "errors_read", "non_2xx"]].fillna(0) == 0).all(axis=None)
    assert (trials["bytes_total"] / trials["requests"]).to_numpy() == pytest.approx(HEADER_AND_BODY, rel=0.04)
    telemetry = ran.table("telemetry")
    served = telemetry[(telemetry["service"] == "app") & (telemetry["metric"] == "requests_total")]
    for trial_id, requests, connections in trials[["trial_id", "requests", "connections"]].itertuples(index=False):
        of_trial = served[served["trial_id"] == trial_id]
        assert not of_trial.empty
        grown = of_trial.groupby("instance", dropna=False)["value"].agg(lambda values: values.max() - values.min())
        # A request may be on its way on each connection at either end; the warm-up and the probe are served, too.
        assert grown.sum() >= requests - 2 * connections


@pytest.fixture(scope="module")
def fasthttp(lab: Lab, run_study: RunStudy) -> Ran:
    return run_study(lab.inventory(), "nethttp-vs-fasthttp", "telemetry={interval_s: 0.1}")


def test_all_go_servers_send_the_same_and_count_it(fasthttp: Ran) -> None:
    assert set(fasthttp.trials["factor_server"]) == {"nethttp", "fasthttp", "gnet", "netpoll", "hertz"}
    assert set(fasthttp.trials["probe_header_bytes"]) == {141}
    check_counts(fasthttp)


def test_event_loops_need_no_goroutine_for_a_connection(fasthttp: Ran) -> None:
    telemetry = fasthttp.table("telemetry")
    goroutines = telemetry[(telemetry["metric"] == "goroutines") & (telemetry["t_s"] >= 0)]
    most = goroutines.groupby("trial_id")["value"].max()
    connections = 64
    by_server = {
        name: most[trial] for name, trial in fasthttp.trials[["factor_server", "trial_id"]].itertuples(index=False)
    }
    assert by_server["nethttp"] > connections
    assert by_server["fasthttp"] > connections
    assert by_server["gnet"] < connections / 2


@pytest.fixture(scope="module")
def node(lab: Lab, run_study: RunStudy) -> Ran:
    return run_study(lab.inventory(), "node-vs-go", "load.warmup_s=0")


def test_node_and_go_send_the_same_and_count_it(node: Ran) -> None:
    check_counts(node)
    by_keepalive = node.trials.groupby("factor_keepalive")["probe_header_bytes"].unique()
    # `close` is five letters shorter than `keep-alive`.
    assert {str(key): list(sizes) for key, sizes in by_keepalive.items()} == {"true": [141], "false": [136]}


def test_cells_need_a_cpu_for_one_worker_fewer(node: Ran) -> None:
    manifest = node.outcome.run.manifest()
    (sut,) = (host for host in manifest.hosts if "sut" in host.roles)
    cpus = len(sut.facts["cpus"])
    fewer = {cell.cell_id: cell.unsupported for cell in manifest.cells if "fewer" in cell.cell_id}
    assert len(fewer) == 4
    if cpus == 1:
        assert all("workers all-but-one: sut has 1 CPU" in str(why) for why in fewer.values())
    else:
        assert set(fewer.values()) == {None}
    for record in node.records.values():
        (app,) = record.services
        assert app.parallelism == (cpus - 1 if "fewer" in record.cell_id else cpus)


def test_workers_of_node_are_told_apart(node: Ran) -> None:
    telemetry = node.table("telemetry")
    lag = telemetry[telemetry["metric"] == "event_loop_lag_s"]
    trials = [record.trial_id for record in node.records.values() if record.services[0].backend == "node"]
    assert set(lag["trial_id"]) == set(trials)
    assert lag["instance"].notna().all()
    assert (lag["value"] >= 0).all()


@pytest.fixture(scope="module")
def slow_link() -> Iterator[Inventory]:
    """A lab whose server has a slow link, as the one of the study had for a server as fast as Go."""
    hosts = (LabHost(name="sut", roles=("sut",), link_bps=SLOW_LINK_BPS), LabHost(name="load", roles=("load",)))
    made = up(LabSpec(name=f"pytest-{os.getpid()}-link", hosts=hosts))
    try:
        yield made.inventory()
    finally:
        down(made.name)


def test_over_a_slow_link_hello_sits_at_its_cap(slow_link: Inventory, run_study: RunStudy) -> None:
    cells = "[{stack: go, work: none, keepalive: true}, {stack: node, work: none, keepalive: true}]"
    bodies = [f"stacks.{stack}.services.app.body_size={LARGE_BODY}" for stack in ("go", "node")]
    ran = run_study(slow_link, "node-vs-go", f"cells={cells}", "load.duration_s=2", *bodies)
    telemetry = ran.table("telemetry")
    sent = telemetry[(telemetry["metric"] == "net_sent_bytes_total") & (telemetry["host"] == "sut")]
    rates: dict[str, float] = {}
    for cell, record in ran.records.items():
        window = sent[(sent["trial_id"] == record.trial_id) & (sent["t_s"] >= 0)]
        by_interface = [
            8 * float(rows["value"].max() - rows["value"].min()) / float(rows["t_s"].max() - rows["t_s"].min())
            for _, rows in window.groupby("instance")
        ]
        rates[cell] = max(by_interface)
    # Both fill the link, so that neither's rate is its own, and benchkit says so.
    assert all(0.85 * SLOW_LINK_BPS < rate < 1.15 * SLOW_LINK_BPS for rate in rates.values()), rates
    verdicts = ran.table("verdicts")
    accused = verdicts[verdicts["check"] == "link-saturated"]
    assert set(accused["trial_id"]) == {record.trial_id for record in ran.records.values()}
    assert all("rps" in metrics for metrics in accused["metrics"])


def test_every_go_server_of_ours_is_in_a_study() -> None:
    """A backend that no scenario uses is one that nobody looks at."""
    from benchkit.resources import shipped  # noqa: PLC0415 - only here

    text = "\n".join(path.read_text() for path in shipped("scenarios").glob("*.yaml"))
    unused = [name for name, kind in BACKENDS.items() if issubclass(kind.options, GoServerOptions) and name not in text]
    assert unused == []
