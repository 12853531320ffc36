"""Runs of the studies that compare servers at their smallest scale: responses, counters and limits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from benchkit.comparison.claims import judge_claims
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.models.profile import STUDIED
from benchkit.report.stored_run import read_run
from benchkit.services.go_servers import GoServerOptions
from benchkit.services.registry import BACKENDS
from tests.qualify.studies.conftest import RunStudy, StudyRun

HEADER_AND_BODY = 141 + 12
MANY = 256
"""A number of connections far greater than the goroutines of an idle Go server."""
SLOW_LINK_BPS = 10e6
LARGE_BODY = 4096
"""Body with which about 580 responses per second saturate the link; with 12 bytes it would take 11,000."""
SATURATED_S = 8
"""Window over the slow link."""
SATURATED = 0.6
"""Share of the link's rate that the check calls saturated here: a machine that stands still for 3 s leaves as much."""

pytestmark = [
    pytest.mark.skipif(
        any(shutil.which(program) is None for program in ("wrk", "node")), reason="wrk or node is not installed"
    ),
]


def check_counts(ran: StudyRun) -> None:
    """Assert that all cells send equal responses, and that servers and tools count the same requests."""
    ran.check_verdicts()
    trials = ran.trials
    assert set(trials["probe_status"]) == {200}
    assert set(trials["probe_body_bytes"]) in ({10}, {12}), "as published, or our own"
    assert len(set(trials["probe_body_sha256"])) == 1
    assert (trials[["errors_connect", "errors_read", "non_2xx"]].fillna(0) == 0).all(axis=None)
    assert (trials["bytes_total"] / trials["requests"]).to_numpy() == pytest.approx(HEADER_AND_BODY, rel=0.04)
    telemetry = ran.table("telemetry")
    served = telemetry[(telemetry["service"] == "app") & (telemetry["metric"] == "requests_total")]
    for trial_id, requests, connections in trials[["trial_id", "requests", "connections"]].itertuples(index=False):
        of_trial = served[served["trial_id"] == trial_id]
        assert not of_trial.empty
        grown = of_trial.groupby("instance", dropna=False)["value"].agg(lambda values: values.max() - values.min())
        # Up to one request per connection is in flight at either end; warm-up and probe are counted too.
        assert grown.sum() >= requests - 2 * connections


@pytest.fixture(scope="module")
def fasthttp(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(lab.inventory(), "nethttp-vs-fasthttp", "telemetry={interval_s: 0.1}")


def test_all_go_servers_send_equal_responses_and_count_them(fasthttp: StudyRun) -> None:
    assert set(fasthttp.trials["factor_server"]) == {"nethttp", "fasthttp", "gnet", "netpoll", "hertz"}
    assert set(fasthttp.trials["probe_header_bytes"]) == {141}
    check_counts(fasthttp)


def test_event_loops_need_no_goroutine_per_connection(fasthttp: StudyRun) -> None:
    telemetry = fasthttp.table("telemetry")
    goroutines = telemetry[(telemetry["metric"] == "goroutines") & (telemetry["t_s"] >= 0)]
    max_goroutines = goroutines.groupby("trial_id")["value"].max()
    connections = 64
    by_server = {
        name: max_goroutines[trial]
        for name, trial in fasthttp.trials[["factor_server", "trial_id"]].itertuples(index=False)
    }
    assert by_server["nethttp"] > connections
    assert by_server["fasthttp"] > connections
    assert by_server["gnet"] < connections / 2


def test_an_event_loop_waits_with_its_handler(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(
        lab.inventory(),
        "blocking-handler",
        "cells=[{server: gnet, handler: 'block:1ms'}, {server: fasthttp, handler: 'block:1ms'}]",
        "roles.sut.cpus=1",
    )
    check_counts(ran)
    rates = ran.trials.set_index("factor_server")["rps"]
    assert rates["gnet"] < 1000, "its only loop blocks for a millisecond in each request"
    assert rates["fasthttp"] > 1.2 * rates["gnet"]


def test_fasthttp_serves_under_other_conditions(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "fasthttp-conditions")
    ran.check_verdicts()
    trials = ran.trials
    assert set(trials["factor_stack"]) == {"nethttp", "fasthttp", "fasthttp-limited"}
    assert (trials["probe_body_bytes"] == trials["factor_body"].astype(int)).all()
    assert (trials[["errors_connect", "errors_read", "non_2xx"]].fillna(0) == 0).all(axis=None)
    argv = {record.levels["stack"]: " ".join(record.services[0].argv) for record in ran.records.values()}
    assert [stack for stack, words in argv.items() if "-concurrency 1000" in words] == ["fasthttp-limited"]


def test_servers_of_two_releases_of_go_stand_side_by_side(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "go-releases")
    ran.check_verdicts()
    assert set(ran.trials["probe_header_bytes"]) == {141}
    assert set(ran.trials["probe_body_bytes"]) == {12}
    programs = {cell.cell_id: cell.builds["app"].output_sha256 for cell in ran.outcome.run.manifest().cells}
    assert set(programs) == {
        f"stack={stack},go={go}" for stack in ("nethttp", "fasthttp") for go in ("go1.16.15", "go1.26.8")
    }
    assert len(set(programs.values())) == len(programs), "each release builds another program"


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm, which has the releases of Node")
def test_servers_of_two_releases_of_node_stand_side_by_side(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "node-releases")
    ran.check_verdicts()
    programs = {cell.cell_id: cell.builds["app"].output_sha256 for cell in ran.outcome.run.manifest().cells}
    assert len(programs) == 4
    assert len(set(programs.values())) == 2, "each release is one executable"
    rates = ran.trials["rps"].groupby(ran.trials["factor_work"]).median()
    assert rates["none"] > 2 * rates["loop"]


@pytest.fixture(scope="module")
def node(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(lab.inventory(), "node-vs-go", "load.warmup_s=0")


def test_node_and_go_send_equal_responses_and_count_them(node: StudyRun) -> None:
    check_counts(node)
    by_keepalive = node.trials.groupby("factor_keepalive")["probe_header_bytes"].unique()
    # The header value `close` is five letters shorter than `keep-alive`.
    assert {str(key): list(sizes) for key, sizes in by_keepalive.items()} == {"true": [141], "false": [136]}


def test_cells_with_one_worker_fewer_need_two_cpus(node: StudyRun) -> None:
    manifest = node.outcome.run.manifest()
    (sut,) = (host for host in manifest.hosts if "sut" in host.roles)
    cpus = len(sut.facts.cpus)
    fewer = {cell.cell_id: cell.unsupported for cell in manifest.cells if "fewer" in cell.cell_id}
    assert len(fewer) == 4
    if cpus == 1:
        assert all("workers all-but-one: sut has 1 CPU" in str(why) for why in fewer.values())
    else:
        assert set(fewer.values()) == {None}
    for record in node.records.values():
        (app,) = record.services
        single = "node-single" in record.cell_id or "node-threads" in record.cell_id
        assert app.parallelism == (
            1 if "node-single" in record.cell_id else cpus - 1 if "fewer" in record.cell_id else cpus
        )
        assert len(app.pids_before) == (1 if single or app.backend == "nethttp" else app.parallelism + 1)


def test_the_primary_of_node_hands_over_new_connections(node: StudyRun) -> None:
    cpu = node.trials["main_process_cpu_s_per_request"]
    short, kept = (f"stack=node,work=none,keepalive={keepalive},body=12" for keepalive in ("false", "true"))
    assert cpu[short] > 2 * cpu[kept]
    assert (node.trials["server_switches_per_request"] > 0).all()


def test_workers_of_node_have_separate_telemetry(node: StudyRun) -> None:
    telemetry = node.table("telemetry")
    lag = telemetry[telemetry["metric"] == "event_loop_lag_s"]
    trials = [record.trial_id for record in node.records.values() if record.services[0].backend == "node"]
    assert set(lag["trial_id"]) == set(trials)
    assert lag["instance"].notna().all()
    assert (lag["value"] >= 0).all()


@pytest.fixture(scope="module")
def slow_link() -> Iterator[Inventory]:
    """Lab whose server has a slow link, as in the study, whose link was slow for a server as fast as Go."""
    hosts = (LabHost(name="sut", roles=("sut",), link_bps=SLOW_LINK_BPS), LabHost(name="load", roles=("load",)))
    made = up(LabSpec(name=f"pytest-{os.getpid()}-link", hosts=hosts))
    try:
        yield made.inventory()
    finally:
        down(made.name)


def test_a_slow_link_is_saturated(slow_link: Inventory, run_study: RunStudy) -> None:
    ran = run_study(
        slow_link,
        "node-vs-go",
        f"factors={{stack: [go, node], work: [none], keepalive: [true], body: [{LARGE_BODY}]}}",
        "exclude=[]",
        f"load.duration_s={SATURATED_S}",
        "load.warmup_s=1",
        "telemetry={interval_s: 0.1}",
        f"thresholds={{link: {SATURATED}}}",
    )
    telemetry = ran.table("telemetry")
    sent = telemetry[(telemetry["metric"] == "net_sent_bytes_total") & (telemetry["host"] == "sut")]
    rates: dict[str, float] = {}
    for cell, record in ran.records.items():
        # The sample behind the window comes late on a busy machine, when nothing is sent any more.
        window = sent[(sent["trial_id"] == record.trial_id) & sent["t_s"].between(0, SATURATED_S)]
        by_interface = [
            float((8 * rows["value"].diff() / rows["t_s"].diff()).median())  # the usual rate, without stalls
            for _, rows in window.sort_values("t_s").groupby("instance")
        ]
        rates[cell] = max(by_interface)
    # Both servers saturate the link, so that their rates are the link's, and the check says so.
    assert all(0.85 * SLOW_LINK_BPS < rate < 1.15 * SLOW_LINK_BPS for rate in rates.values()), rates
    verdicts = ran.table("verdicts")
    saturated = verdicts[verdicts["check"] == "link-saturated"]
    assert set(saturated["trial_id"]) == {record.trial_id for record in ran.records.values()}
    assert all("rps" in metrics for metrics in saturated["metrics"])
    assert link_needed(ran) == []


def test_claims_about_a_saturated_link_need_a_link_of_known_rate(node: StudyRun) -> None:
    """Check on the session's lab, whose links have no limit and no known rate."""
    assert len(link_needed(node)) == 2


def link_needed(ran: StudyRun) -> list[str]:
    """Return the claims about a saturated link that are not testable, as the link is too fast or of unknown rate."""
    claims = judge_claims(read_run_data(ran.store, ran.outcome.run))
    assert sum("over a link that Go filled" in claim.text for claim in claims) == 2
    return [claim.text for claim in claims if "needs a link of at most" in claim.reason]


@pytest.fixture(scope="module")
def overhead(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(
        lab.inventory(), "scheduler-overhead", f"factors.connections=[{MANY}]", "telemetry={interval_s: 0.1}"
    )


def test_every_profiled_trial_has_an_unprofiled_partner(overhead: StudyRun) -> None:
    overhead.check_verdicts()
    kinds = overhead.trials.reset_index().groupby(["factor_server", "kind"]).size()
    assert kinds.to_dict() == {
        (server, kind): 1 for server in ("gnet", "nethttp") for kind in ("control", "measure", "profile")
    }
    profiled = overhead.trials[overhead.trials["kind"] == "profile"]["trial_id"]
    shares = overhead.table("profile_share").groupby("trial_id")["share"].sum()
    assert set(shares.index) == set(profiled)
    assert shares.to_numpy() == pytest.approx(1)


def test_event_loops_need_few_goroutines_and_wait_for_the_network_outside_the_scheduler(overhead: StudyRun) -> None:
    """Check what holds at any load; the growth of shares with connections needs larger scales."""
    run = read_run(overhead.store, overhead.outcome.run)
    servers = {cell.cell_id.partition(",")[0].removeprefix("server="): cell for cell in run.service_profiles}
    assert set(servers) == {"nethttp", "gnet"}
    assert (servers["nethttp"].goroutines or 0) > MANY
    assert 0 < (servers["gnet"].goroutines or 0) < MANY / 2
    for profile in servers.values():
        assert profile.profiles == 1
        assert profile.waiting == pytest.approx(
            sum(profile.categories[each] for each in ("scheduler", "netpoll", "epoll"))
        )
        assert set(profile.cumulative) == set(STUDIED)
        assert profile.rps
        assert profile.server_cpu_s_per_request
    # net/http waits for the network within the scheduler, whose share includes that time.
    assert servers["nethttp"].categories["epoll"] == 0


def test_every_go_server_is_in_a_study() -> None:
    """Check that a shipped scenario uses each Go backend."""
    from benchkit.files import shipped  # noqa: PLC0415 - only here

    text = "\n".join(path.read_text() for path in shipped("scenarios").glob("*.yaml"))
    unused = [name for name, kind in BACKENDS.items() if issubclass(kind.options, GoServerOptions) and name not in text]
    assert unused == []
