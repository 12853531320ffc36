"""Scenarios of studies run at their smallest scale: states, answers and restored settings; no figures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchkit.agent.settings import Sysctls
from benchkit.hosts.connections import connect
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from tests.qualify.studies.conftest import RunStudy

QUICK = ("blocks=1", "load.warmup_s=0", "load.rate=null")
"""Settings of runs without load curves and trials at a held rate."""


def tuned_settings(inventory: Inventory, name: str) -> Mapping[str, str | None]:
    """Return the kernel settings of the sut that the tuning of a scenario changes."""
    keys = [key for used in read_experiment(name, "smoke").tuning for key in used.settings.sysctl]
    with connect(inventory.named("sut")) as host:
        return {key: found.value for key, found in host.call(Sysctls.read, keys).items()}


def test_nginx_vs_go_sends_equal_answers_and_restores_the_settings(lab: Lab, run_study: RunStudy) -> None:
    before = tuned_settings(lab.inventory(), "nginx-vs-go")
    ran = run_study(lab.inventory(), "nginx-vs-go", *QUICK)
    assert tuned_settings(lab.inventory(), "nginx-vs-go") == before
    ran.check_answers()
    assert len({cell.partition(",")[0] for cell in ran.trials.index}) == 4
    assert set(ran.trials["probe_header_bytes"]) == {141}
    assert ran.trials["probe_body_sha256"].nunique() == 1
    hosts = ran.table("hosts")
    facts = hosts[hosts["role"] == "sut"].set_index(["at", "fact"])["value"]
    assert facts["tuned", "sysctls.net.ipv4.tcp_tw_reuse"] == "1"
    assert facts["restored", "sysctls.net.ipv4.tcp_tw_reuse"] == facts["start", "sysctls.net.ipv4.tcp_tw_reuse"]


def test_bodies_of_static_files_have_the_sizes_of_their_levels(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "static-files", *QUICK)
    ran.check_answers()
    plain = ran.trials[ran.trials["factor_stack"] != "go-listing"]
    assert (plain["probe_body_bytes"] == plain["factor_body"]).all()
    assert plain[plain["factor_body"] == 535]["probe_body_sha256"].nunique() == 1


def test_nginx_has_a_socket_for_each_worker_or_one_for_all(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "reuseport", *QUICK)
    ran.check_answers()
    table = ran.table("telemetry")
    limits = table[(table["metric"] == "accept_queue_limit") & table["instance"].str.contains("8080", na=False)]
    for cell, record in ran.records.items():
        of_trial = limits[limits["trial_id"] == record.trial_id]
        assert set(of_trial["value"]) == {record.levels["backlog"]}, cell


def test_go_servers_send_equal_answers(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "nethttp-vs-fasthttp")
    ran.check_answers()
    assert set(ran.trials["factor_server"]) == {"nethttp", "fasthttp", "gnet", "netpoll", "hertz"}
    assert set(ran.trials["probe_header_bytes"]) == {141}


def test_every_profiled_trial_of_scheduler_overhead_has_a_partner(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "scheduler-overhead", "factors.connections=[64]")
    ran.check_answers()
    kinds = ran.trials.groupby(["factor_server", "kind"]).size().to_dict()
    assert kinds == {(server, kind): 1 for server in ("gnet", "nethttp") for kind in ("control", "measure", "profile")}
    shares = ran.table("profile_share").groupby("trial_id")["share"].sum()
    assert shares.to_numpy() == pytest.approx(1)


def test_workers_of_node_are_counted(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "node-vs-go", "load.warmup_s=0")
    ran.check_answers()
    for cell, record in ran.records.items():
        (app,) = record.services
        is_single = app.backend == "nethttp" or "node-single" in cell or "node-threads" in cell
        assert len(app.pids_before) == (1 if is_single else (app.parallelism or 0) + 1), cell
