"""Smallest runs of the studies of TLS, HTTP/2 and HTTP/3: what was negotiated, handshakes, where keys are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from benchkit.report.pages.report_files import write_report
from benchkit.report.stored_run import read_run
from tests.qualify.studies.conftest import RunStudy, StudyRun

pytestmark = [
    pytest.mark.skipif(
        any(
            shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin") is None
            for program in ("nginx", "wrk", "h2load")
        ),
        reason="nginx, wrk or h2load is not installed",
    ),
]

KEY = "PRIVATE KEY"
PROTOCOL_CHECKS = ("protocol-mismatch", "handshake-share")


def require_no_key(ran: StudyRun, lab: Lab, report: Path) -> None:
    """Assert that no private key is in the store, the report, an argument list, or on a host after the run."""
    write_report(read_run(ran.store, ran.outcome.run), report)
    assert (report / "figures" / "protocol-cost.svg").is_file()
    files = [path for folder in (Path(str(ran.store.path)), report) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    for record in ran.records.values():
        assert KEY not in record.model_dump_json()
    with connect_all(lab.inventory()) as hosts:
        for host in hosts:
            found = host.processes.run(["grep", "-rlI", KEY, str(host.workdir)], timeout_s=20).stdout.decode()
            assert [path for path in found.split() if "/stack/" in path] == []  # elsewhere tests keep keys of theirs


def require_as_asked(ran: StudyRun) -> None:
    """Assert that every trial spoke the protocol of its cell, and that no check of it has a finding.

    The cipher is known where the load tool states it, as h2load does; wrk may agree on another than the probe.
    """
    ran.check_verdicts()
    trials = ran.trials
    assert trials["protocol"].tolist() == trials["factor_protocol"].tolist()
    encrypted = trials[trials["protocol"].isin(["https1", "h2"])]
    assert set(encrypted["tls_version"]) == {"1.3"}
    states_cipher = encrypted["tool"] == "h2load"
    assert encrypted[states_cipher]["cipher"].str.startswith("TLS_AES_").all()
    assert encrypted[~states_cipher]["cipher"].isna().all()
    assert (trials[["errors_connect", "errors_read", "non_2xx"]].fillna(0) == 0).all(axis=None)
    findings = ran.table("verdicts")
    assert findings[findings["check"].isin(PROTOCOL_CHECKS)]["text"].tolist() == []
    skipped = ran.table("unchecked")
    assert skipped[skipped["check"].isin(PROTOCOL_CHECKS)]["why"].tolist() == []


@pytest.mark.parametrize("design", [("design=blocks",), ("design=sliced", "slice_s=1")])
def test_tls_cost_counts_full_and_resumed_handshakes(
    lab: Lab, run_study: RunStudy, tmp_path: Path, design: tuple[str, ...]
) -> None:
    # In a window of 1 s, a machine that stands still for half a second leaves too few samples of the counters.
    ran = run_study(lab.inventory(), "tls-cost", "load.duration_s=3", *design)
    require_as_asked(ran)
    trials = ran.trials
    cells = {cell: record for cell, record in ran.records.items() if not record.load.keepalive}
    new = trials.loc[list(cells)]
    resumed = [bool(record.levels["resumption"]) for record in cells.values()]
    full = [not each for each in resumed]
    assert len(new[resumed]) == 2
    assert (new[resumed]["resumed_share"] > 0.5).all()  # but for the first connection of each of wrk's
    assert (new[full]["resumed_share"] == 0).all()
    assert (new["handshakes_per_s"] / new["rps"]).to_numpy() == pytest.approx(1, rel=0.2)
    assert (new["server_cpu_s_per_handshake"] > 0).all()
    assert trials[trials["protocol"] == "http1"]["handshakes_per_s"].isna().all()
    require_no_key(ran, lab, tmp_path / "report")


def test_http2_sends_the_same_bodies_over_fewer_connections(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "http2")
    require_as_asked(ran)
    trials = ran.trials
    sizes = trials["factor_body"].astype(int)
    assert (trials["probe_body_bytes"].astype(int) == sizes).all()
    per_request = trials["bytes_total"] / trials["requests"]
    # Each request in flight at the end may have a part of its answer: on a slow machine that is a large share of all.
    unfinished = trials["factor_connections"].astype(int) * trials["factor_streams"].astype(int) / trials["requests"]
    assert ((per_request >= 0.97 * sizes) & (per_request <= (1.1 * sizes + 200) * (1 + unfinished))).all()
    assert trials.groupby("factor_body")["probe_body_sha256"].nunique().eq(1).all()


def test_http3_sends_the_same_bodies_over_udp_with_full_resumed_and_early_handshakes(
    lab: Lab, run_study: RunStudy
) -> None:
    # In 1 s, a slow machine opens hardly more connections than the 64 that have no session to resume.
    ran = run_study(lab.inventory(), "http3", "load.duration_s=3")
    ran.check_verdicts()
    trials = ran.trials
    assert len(trials[trials["factor_stack"] == "nethttp"]) == 8
    assert trials["protocol"].tolist() == trials["factor_protocol"].tolist()
    assert set(trials["tls_version"]) == {"1.3"}
    assert (trials["bytes_total"] == trials["requests"] * trials["factor_body"].astype(int)).all()
    findings = ran.table("verdicts")
    assert findings[findings["check"].isin([*PROTOCOL_CHECKS, "unequal-responses"])]["text"].tolist() == []
    counted = trials[trials["factor_stack"] == "nethttp"]
    new = counted[counted["factor_keepalive"] == "false"]
    is_resumed = new["factor_resumption"] == "true"
    assert (new[is_resumed]["resumed_share"] > 0.3).all()  # but for the first connection of each of 64
    assert (new[~is_resumed]["resumed_share"] == 0).all()
    assert (new["handshakes_per_s"] / new["rps"]).to_numpy() == pytest.approx(1, rel=0.3)
    early = {cell: _notes(record) for cell, record in ran.records.items()}
    assert {cell for cell, codes in early.items() if "openloop-early-data" in codes} == {
        cell for cell, record in ran.records.items() if record.levels["early_data"]
    }
    telemetry = ran.table("telemetry")
    sent = telemetry[telemetry["metric"] == "udp_sent_total"].groupby("trial_id")["value"].max()
    is_udp = trials.set_index("trial_id")["protocol"] == "h3"
    assert (sent[is_udp[is_udp].index] >= 50).all()


def _notes(record: TrialRecord) -> set[str]:
    return {note.code for each in record.generators if each.result is not None for note in each.result.notes}
