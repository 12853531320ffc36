"""Runs of the studies with nginx at their smallest scale: responses, counters, tuned and restored settings."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pandas as pd
import pytest

from benchkit.comparison.compare import compare
from benchkit.hosts.connections import connect
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from tests.qualify.studies.conftest import RunStudy, StudyRun

pytestmark = [
    pytest.mark.skipif(
        any(
            shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin") is None
            for program in ("nginx", "wrk", "ab")
        ),
        reason="nginx, wrk or ab is not installed",
    ),
]

QUICK = ("blocks=1", "load.warmup_s=0")


def settings_of(inventory: Inventory, host: str, name: str) -> Mapping[str, str | None]:
    """Return the kernel settings of a host that the tuning of a scenario changes."""
    experiment = read_experiment(name, "smoke")
    keys = [key for used in experiment.tuning for key in used.settings.sysctl]
    with connect(inventory.named(host)) as connected:
        return {key: found.value for key, found in connected.changes.read_sysctls(keys).items()}


@pytest.fixture(scope="module")
def nginx_vs_go(lab: Lab, run_study: RunStudy) -> StudyRun:
    before = settings_of(lab.inventory(), "sut", "nginx-vs-go")
    ran = run_study(lab.inventory(), "nginx-vs-go", *QUICK)
    assert settings_of(lab.inventory(), "sut", "nginx-vs-go") == before
    return ran


def test_all_four_topologies_send_the_same_header_and_body_bytes(nginx_vs_go: StudyRun) -> None:
    trials = nginx_vs_go.trials
    assert len({cell.partition(",")[0] for cell in trials.index}) == 4
    assert set(trials["probe_status"]) == {200}
    assert set(trials["probe_header_bytes"]) == {141}
    assert set(trials["probe_body_bytes"]) == {12}
    assert len(set(trials["probe_body_sha256"])) == 1
    assert (trials["requests"] > 100).all()
    nginx_vs_go.check_verdicts()
    # Bytes on the wire confirm for every request what the probe found for one.
    assert (trials["bytes_total"] / trials["requests"]).to_numpy() == pytest.approx(153, rel=0.02)


def test_levels_that_are_equal_on_one_cpu_run_once(nginx_vs_go: StudyRun) -> None:
    (sut,) = (host for host in nginx_vs_go.outcome.run.manifest().hosts if "sut" in host.roles)
    same = [cell for cell in nginx_vs_go.outcome.run.manifest().cells if cell.unsupported]
    assert len(same) == (4 if len(sut.facts.cpus) == 1 else 0)
    assert all("on these hosts the same as" in str(cell.unsupported) for cell in same)


def test_the_hosts_table_has_tuned_and_restored_settings(nginx_vs_go: StudyRun) -> None:
    hosts = nginx_vs_go.table("hosts")
    facts = hosts[hosts["role"] == "sut"].set_index(["at", "fact"])["value"]
    assert facts["tuned", "sysctls.net.ipv4.tcp_tw_reuse"] == "1"
    assert facts["restored", "sysctls.net.ipv4.tcp_tw_reuse"] == facts["start", "sysctls.net.ipv4.tcp_tw_reuse"]
    assert facts["tuned", "sysctls.net.ipv4.ip_local_port_range"] in ("1025 65535", "1025\t65535")
    assert facts["tuned", "tuning.net.ipv4.tcp_tw_reuse"] in ("applied", "already")
    assert facts["tuned", "tuning.net.ipv4.tcp_tw_recycle"] == "absent"
    tuned_only = "sysctls.net.ipv4.tcp_syn_retries"  # read only because it is tuned
    assert facts["block 1", tuned_only] == facts["tuned", tuned_only] == facts["end", tuned_only]
    assert facts["tuned", "tuning.fs.file-max"] != "applied" or facts["tuned", "sysctls.fs.file-max"] == "9999999"
    notices = " ".join(nginx_vs_go.outcome.run.manifest().notes)
    assert "no such setting: net.ipv4.tcp_tw_recycle = 1" in notices


def test_nginx_counts_what_the_tool_counts(nginx_vs_go: StudyRun) -> None:
    telemetry = nginx_vs_go.table("telemetry")
    front = telemetry[(telemetry["service"] == "front") & (telemetry["metric"] == "requests_total")]
    sent_by_trial = dict(zip(nginx_vs_go.trials["trial_id"], nginx_vs_go.trials["requests"], strict=True))
    assert front["trial_id"].nunique() == 3
    for trial_id, rows in front.groupby("trial_id"):
        sent = sent_by_trial[str(trial_id)]
        served = rows["value"].max() - rows["value"].min()
        assert 0 < served <= sent * 1.1 + 50
    record = next(record for cell, record in nginx_vs_go.records.items() if "nginx-http" in cell)
    assert {service.name: service.parallelism for service in record.services}["front"] == len(record.services[0].cpus)


@pytest.fixture(scope="module")
def static_files(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(lab.inventory(), "static-files", *QUICK)


def test_bodies_of_static_cells_have_the_sizes_of_their_levels(static_files: StudyRun) -> None:
    trials = static_files.trials.reset_index()
    everywhere = trials[trials["factor_stack"] != "nginx-lua"]  # its module is an optional package of the host
    assert len(everywhere) == 11
    assert (trials[["errors_connect", "errors_read", "non_2xx"]].fillna(0) == 0).all(axis=None)
    plain = trials[trials["factor_stack"] != "go-listing"]
    assert (plain["probe_body_bytes"] == plain["factor_body"]).all()
    fair = plain[plain["factor_body"] == 535]
    assert len(fair[fair["factor_stack"] != "nginx-lua"]) == 8
    assert len(set(fair["probe_body_sha256"])) == 1
    static_files.check_verdicts()
    listing = trials[trials["factor_stack"] == "go-listing"].iloc[0]
    assert listing["probe_body_sha256"] not in set(plain["probe_body_sha256"])


def test_unequal_cells_are_declared_with_their_reason(static_files: StudyRun) -> None:
    found = compare(static_files.outcome.run.run_id, store=static_files.store.path)
    notes_by_cell = {ratio.cell_id: ratio.notes for ratio in found.ratios}
    everywhere = [cell for cell in notes_by_cell if "nginx-lua" not in cell]
    assert len(everywhere) == 7  # cells with an nginx cell of the same levels
    for cell, notes in notes_by_cell.items():
        about_answers = [note for note in notes if note.startswith("different answers: ")]
        assert bool(about_answers) is ("nginx-uncached" not in cell), "which answers as nginx does"
        assert all("(declared by the scenario: " in note for note in about_answers)


@pytest.fixture(scope="module")
def reuseport(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(lab.inventory(), "reuseport", *QUICK)


def test_workers_share_a_listening_socket_or_have_one_each(reuseport: StudyRun) -> None:
    telemetry = reuseport.table("telemetry")
    limits = telemetry[(telemetry["metric"] == "accept_queue_limit") & (telemetry["service"] == "server")]
    by_trial: dict[str, pd.DataFrame] = {str(trial): rows for trial, rows in limits.groupby("trial_id")}
    assert len(reuseport.records) == 8
    for cell, record in reuseport.records.items():
        on_port = by_trial[record.trial_id]
        on_port = on_port[on_port["instance"].str.contains("8080")]
        assert on_port["instance"].nunique() == (6 if record.levels["reuseport"] else 1), cell
        assert set(on_port["value"]) == {record.levels["backlog"]}, cell
        assert {service.parallelism for service in record.services} == {6}


def test_the_kernels_counters_of_full_queues_are_kept(reuseport: StudyRun) -> None:
    telemetry = reuseport.table("telemetry")
    kept = set(telemetry[telemetry["role"] == "sut"]["metric"])
    assert {"listen_overflows_total", "listen_drops_total", "req_queue_full_cookies_total", "accept_queue"} <= kept


def test_answers_of_varying_length_are_no_errors(reuseport: StudyRun) -> None:
    trials = reuseport.trials
    reuseport.check_verdicts()
    assert set(trials["probe_status"]) == {200}
    assert (trials[["errors_connect", "errors_read", "errors_write", "non_2xx"]].fillna(0) == 0).all(axis=None)
    assert (trials["requests"] > 100).all()


def test_the_configurations_that_were_run_are_in_the_journal(reuseport: StudyRun) -> None:
    events = (event.model_dump() for event in reuseport.outcome.run.history())
    deployed = [event for event in events if event["event"] == "deployed"]
    assert len(deployed) == 8
    for event in deployed:
        ((path, text),) = event["configs"].items()
        assert path.endswith("/nginx.conf")
        assert (" reuseport;" in text) is ("reuseport=true" in event["cell_id"])


def test_every_role_of_nginx_is_played(lab: Lab, run_study: RunStudy) -> None:
    """Check by the counters of the Go servers which requests nginx passes on to which of them."""
    plain, page = "work: none, body: 12", "work: none, body: 16384"
    cells = (
        *(f"{{stack: {stack}, {plain}}}" for stack in ("proxy", "two-hosts", "balanced", "cached")),
        *(f"{{stack: {stack}, {page}}}" for stack in ("proxy", "files", "gzip")),
    )
    ran = run_study(lab.inventory(), "nginx-roles", "blocks=1", f"cells=[{', '.join(cells)}]")
    ran.check_verdicts()
    trials = ran.trials
    telemetry = ran.table("telemetry")
    counted = telemetry[telemetry["metric"] == "requests_total"]
    requests = trials["requests"].to_dict()
    trial_ids = trials["trial_id"].to_dict()

    def share(cell: str, service: str) -> float:
        of_service = counted[(counted["trial_id"] == trial_ids[cell]) & (counted["service"] == service)]
        return float(of_service["value"].max() / requests[cell])

    small, large = ",work=none,body=12", ",work=none,body=16384"
    for stack in ("two-hosts", "balanced"):
        assert share(f"stack={stack}{small}", "app") == pytest.approx(0.5, abs=0.1)
        assert share(f"stack={stack}{small}", "other") == pytest.approx(0.5, abs=0.1)
    assert share(f"stack=proxy{large}", "app") > 0.9
    assert share(f"stack=cached{small}", "app") < 0.05
    assert share(f"stack=files{large}", "app") == 0
    proxied, file, zipped = (trials.loc[f"stack={stack}{large}"] for stack in ("proxy", "files", "gzip"))
    assert file["probe_body_sha256"] == proxied["probe_body_sha256"]
    assert zipped["probe_body_bytes"] < proxied["probe_body_bytes"] / 10


def test_the_untuned_round_opens_a_connection_to_go_for_each_request(lab: Lab, run_study: RunStudy) -> None:
    before = settings_of(lab.inventory(), "sut", "nginx-vs-go")
    ran = run_study(lab.inventory(), "nginx-tuning", "factors.stack=[nginx-stock, nginx-tuned]")
    assert settings_of(lab.inventory(), "sut", "nginx-vs-go") == before
    ran.check_verdicts()
    trials = ran.trials
    assert set(trials["probe_header_bytes"]) == {141}
    telemetry = ran.table("telemetry")
    # Sockets in TIME_WAIT would be those of earlier trials, too, whose minute ends in this one.
    opened = telemetry[(telemetry["metric"] == "tcp_active_opens_total") & (telemetry["role"] == "sut")]
    counts = opened.groupby("trial_id")["value"].agg(lambda values: values.max() - values.min())
    per_request = counts[trials["trial_id"]].to_numpy() / trials["requests"].to_numpy(dtype=float)
    is_stock = (trials["factor_stack"] == "nginx-stock").to_numpy()
    assert (per_request[is_stock] > 0.9).all()
    assert (per_request[~is_stock] < 0.1).all()
