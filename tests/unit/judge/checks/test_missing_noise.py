"""Tests of the check that slow and broken clients ran, and of what their connections and CPU time change elsewhere."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.judge.check import ALL
from benchkit.judge.evidence import Evidence
from benchkit.models.load import Noise, NoiseRecord
from benchkit.models.trial import TrialRecord
from benchkit.store.telemetry_table import TrialSamples, noise_record, read_noise
from tests.support.judge.builders import Telemetry, build_load, build_trial, build_watch, finding_of

WANTED = {"slow_readers": 50, "half_open": 20, "malformed": "2/s"}
DID = {
    "host": "load",
    "argv": ("python3", "noise.py"),
    "cpus": (1,),
    "cpu_s": 0.3,
    "observed_s": 3.0,
    "slow_readers": 50.0,
    "half_open": 20.0,
    "read_bytes": 5_000,
    "responses": 2,
    "malformed": 6,
    "refused": 0,
    "closed": 0,
}


def trial(**did: object) -> Evidence:
    return build_trial(load=build_load(noise=WANTED), noise=NoiseRecord.model_validate({**DID, **did}))


@pytest.mark.parametrize(
    ("did", "seen"),
    [
        ({}, None),
        ({"slow_readers": 48.0}, None),
        (
            {"slow_readers": 47.0, "closed": 9},
            "47 of 50 connections of slow readers were open; 9 connections were closed",
        ),
        ({"half_open": 18.9}, "18.9 of 20 connections with half of a request were open"),
        ({"malformed": 5, "refused": 1}, "5 of 6 malformed requests were sent; 1 connection could not be opened"),
        ({"read_bytes": 0}, "0 of 1 bytes were read by slow readers"),
    ],
)
def test_clients_that_did_not_run(did: dict[str, object], seen: str | None) -> None:
    found = finding_of("missing-noise", trial(**did))
    assert (found is not None) == (seen is not None)
    if found is not None:
        assert found.seen.startswith(str(seen))
        assert (found.severity, found.metrics) == ("invalid", ALL)


@pytest.mark.parametrize(("established", "is_found"), [(134, False), (130, True), (64, True)])
def test_connections_of_noise_are_none_of_the_load(established: int, *, is_found: bool) -> None:
    counts: Telemetry = {
        ("connections_established", "sut", "app", "8080"): dict.fromkeys((0.5, 1.0, 1.5), float(established))
    }
    evidence = build_trial(counts, load=build_load(noise=WANTED), noise=NoiseRecord.model_validate(DID))
    assert (finding_of("missing-connections", evidence) is not None) == is_found


def line(t_s: float, read_bytes: int, held: int, answers: dict[str, int]) -> str:
    done = {"read_bytes": read_bytes, "responses": 0, "malformed": sum(answers.values()), "refused": 0, "closed": 0}
    report = {"t_ns": int(t_s * 1e9), "held": {"slow_readers": held, "half_open": 1}, "done": done, "answers": answers}
    return json.dumps({**report, "cpu_s": t_s / 10}) + "\n"


REPORTS = (
    line(0.0, 10, 0, {})
    + line(0.9, 100, 4, {"400": 1})
    + line(2.0, 300, 4, {"400": 2})
    + line(3.1, 500, 2, {"400": 2, "closed": 1})
    + line(4.0, 900, 2, {"400": 9})
).encode()


def test_what_was_done_in_the_window() -> None:
    did = noise_record(read_noise(REPORTS + b'{"t_ns"'), (10**9, 3 * 10**9), "load", ("python3",), (1,))
    assert [did.observed_s, did.cpu_s] == pytest.approx([2.2, 0.22])
    assert [did.slow_readers, did.half_open, did.read_bytes] == pytest.approx([10 / 3, 1, 400])
    assert (did.malformed, dict(did.answers)) == (2, {"400": 1, "closed": 1})
    with pytest.raises(ParseError, match="nothing in the measured window"):
        noise_record(read_noise(REPORTS)[:1], (10**9, 3 * 10**9), "load", (), ())


def test_reports_are_in_the_telemetry_of_their_host() -> None:
    did = NoiseRecord.model_validate(DID)
    watch = build_watch("load", window_ns=(10**9, 3 * 10**9))
    record: TrialRecord = build_trial(noise=did, watched=(watch,)).record
    files = {"telemetry.load.jsonl": b'{"format": 1}\n', "noise.jsonl": REPORTS}
    samples = TrialSamples(record, files.__getitem__)
    assert samples.notes == ()
    columns = samples.table().to_pydict()
    rows = list(zip(columns["metric"], columns["instance"], columns["t_s"], columns["value"], strict=True))
    assert ("noise_read_bytes_total", None, pytest.approx(1.0), 300.0) in rows
    assert ("noise_malformed_total", "closed", pytest.approx(2.1), 1.0) in rows
    assert set(columns["role"]) == {"load"}


def test_rates_are_written_per_second_or_as_numbers() -> None:
    assert [Noise.model_validate({"malformed": rate}).malformed for rate in ("1/s", " 0.5 / s", 2, "3")] == [
        1,
        0.5,
        2,
        3,
    ]
    for wrong in ("1/min", -1, "often"):
        with pytest.raises(ValidationError):
            Noise.model_validate({"malformed": wrong})
