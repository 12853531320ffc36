"""Slow and broken clients beside the load, on the lab, in the study of them at its smallest scale."""

from __future__ import annotations

import shutil

import pytest

import benchkit
from benchkit.lab.lab import Lab
from tests.qualify.studies.conftest import RunStudy, StudyRun

pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin") is None, reason="nginx is not installed"
)


@pytest.fixture(scope="module")
def noise(lab: Lab, run_study: RunStudy) -> StudyRun:
    return run_study(lab.inventory(), "noise", "blocks=1")


def test_the_clients_of_the_cell_ran_through_the_window(noise: StudyRun) -> None:
    measured = [record for record in noise.records.values() if record.kind == "measure"]
    assert len(measured) == 4
    for record in measured:
        did, wanted = record.noise, record.load.noise
        assert did is not None
        assert wanted is not None
        assert did.slow_readers == pytest.approx(record.levels["noise"], rel=0.05)
        assert did.half_open == pytest.approx(20, rel=0.05)
        assert did.malformed >= 2
        assert sum(did.answers.values()) == did.malformed
        # Fifty readers of 512 kB a second have some 25.6 MB of it on a machine that is idle, and less on a busy one.
        assert (0.1 if wanted.slow_readers else 0) <= did.read_bytes / 25.6e6 / did.observed_s <= 1.1
    noise.check_verdicts()
    assert not noise.table("verdicts")["check"].isin(["missing-noise"]).any()


def test_their_requests_are_none_of_the_load(noise: StudyRun) -> None:
    measured = noise.trials[noise.trials["kind"] == "measure"]
    assert (measured["requests"] <= measured["rate_requested"] * 3 * 1.05).all()
    assert (noise.trials["non_2xx"].fillna(0) == 0).all()


def test_the_telemetry_shows_them_from_before_the_window_to_its_end(noise: StudyRun) -> None:
    telemetry = benchkit.load("telemetry", store=noise.store.path, run_id=noise.outcome.run.run_id)
    measured = noise.trials[noise.trials["kind"] == "measure"]["trial_id"]
    is_noise = (telemetry["service"] == "noise") & (telemetry["metric"] == "noise_connections")
    rows = telemetry[is_noise & telemetry["trial_id"].isin(measured)]
    assert set(rows["instance"]) == {"slow_readers", "half_open"}
    assert set(rows["host"]) == {"load"}
    ends = rows.groupby("trial_id")["t_s"].agg(["min", "max"])
    assert (ends["min"] < -1).all(), "the warm-up takes a second"
    assert (ends["max"] > 2.5).all()
