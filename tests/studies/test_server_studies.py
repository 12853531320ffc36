"""The studies of servers beside each other, run for real at their smallest: what was sent, counted, and at the limit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from benchkit.analysis.claims import judge_claims
from benchkit.analysis.run_data import read_run_data
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.models.categories import STUDIED
from benchkit.report.figures.registry import get_figure
from benchkit.report.run_reader import read_run
from benchkit.services.go_server import GoServerOptions
from benchkit.services.registry import BACKENDS
from tests.studies.conftest import Ran, RunStudy

HEADER_AND_BODY = 141 + 12
MANY = 256
"""Connections: far more than a Go program has goroutines of its own."""
SLOW_LINK_BPS = 10e6
LARGE_BODY = 4096
"""Some 580 answers a second with such a body fill the link, which any server here can; one of 12 bytes would take 11,000."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        any(shutil.which(program) is None for program in ("wrk", "node")), reason="wrk or node is not installed"
    ),
]


def check_counts(ran: Ran) -> None:
    """Every cell answered, alike, and counted what the tool counted; nothing was wrong with it but the machine."""
    ran.check_verdicts()
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
    ran = run_study(
        slow_link,
        "node-vs-go",
        f"factors={{stack: [go, node], work: [none], keepalive: [true], body: [{LARGE_BODY}]}}",
        "exclude=[]",
        "load.duration_s=2",
        "load.warmup_s=1",
    )
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
    assert link_needed(ran) == []


def test_what_was_seen_on_a_full_link_is_not_claimed_on_another(node: Ran) -> None:
    """The session's lab has no cap, and nobody says how fast its links are."""
    assert len(link_needed(node)) == 2


def link_needed(ran: Ran) -> list[str]:
    """The claims about a link that Go filled which these links are too fast for, or of no known rate."""
    claims = judge_claims(read_run_data(ran.store, ran.outcome.run))
    assert sum("over a link that Go filled" in claim.text for claim in claims) == 2
    return [claim.text for claim in claims if "needs a link of at most" in claim.reason]


@pytest.fixture(scope="module")
def overhead(lab: Lab, run_study: RunStudy) -> Ran:
    return run_study(
        lab.inventory(), "scheduler-overhead", f"factors.connections=[{MANY}]", "telemetry={interval_s: 0.1}"
    )


def test_every_server_is_profiled_beside_a_trial_that_is_not(overhead: Ran) -> None:
    overhead.check_verdicts()
    kinds = overhead.trials.reset_index().groupby(["factor_server", "kind"]).size()
    assert kinds.to_dict() == {
        (server, kind): 1 for server in ("gnet", "nethttp") for kind in ("control", "measure", "profile")
    }
    profiled = overhead.trials[overhead.trials["kind"] == "profile"]["trial_id"]
    shares = overhead.table("profile_share").groupby("trial_id")["share"].sum()
    assert set(shares.index) == set(profiled)
    assert shares.to_numpy() == pytest.approx(1)


def test_event_loops_need_few_goroutines_and_wait_for_the_network_by_themselves(overhead: Ran) -> None:
    """What is so at any load; how shares grow with connections is for larger scales."""
    run = read_run(overhead.store, overhead.outcome.run)
    found = {each.cell_id.partition(",")[0].removeprefix("server="): each for each in run.profiled}
    assert set(found) == {"nethttp", "gnet"}
    assert (found["nethttp"].goroutines or 0) > MANY
    assert 0 < (found["gnet"].goroutines or 0) < MANY / 2
    for each in found.values():
        assert each.profiles == 1
        assert each.scheduling == pytest.approx(each.categories["scheduler"] + each.categories["netpoll"])
        assert set(each.cumulative) == set(STUDIED)
        assert each.rps
        assert each.server_cpu_s_per_request
    # What net/http waits for it waits for under the scheduler, where it counts as its share.
    assert found["nethttp"].categories["epoll"] == 0
    figure = get_figure("categories")
    assert figure.available(run)
    assert "nethttp" in figure.alt(run)


def test_every_go_server_of_ours_is_in_a_study() -> None:
    """A backend that no scenario uses is one that nobody looks at."""
    from benchkit.resources import shipped  # noqa: PLC0415 - only here

    text = "\n".join(path.read_text() for path in shipped("scenarios").glob("*.yaml"))
    unused = [name for name, kind in BACKENDS.items() if issubclass(kind.options, GoServerOptions) and name not in text]
    assert unused == []
