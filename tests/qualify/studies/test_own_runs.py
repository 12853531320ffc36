"""Scenarios of questions of our own run at their smallest scale: protocols, services and states; no figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from tests.qualify.studies.conftest import RunStudy
from tests.support.needs import containers, database
from tests.support.run.load_curves import carried_with


@pytest.mark.parametrize("name", ["tls-cost", "http2", "http3"])
def test_the_protocol_of_the_cell_is_negotiated(name: str, lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), name, "load.duration_s=1", "load.rate=null")
    ran.check_answers()
    assert ran.trials["protocol"].tolist() == ran.trials["factor_protocol"].tolist()
    findings = ran.table("verdicts")
    assert findings[findings["check"] == "protocol-mismatch"]["text"].tolist() == []
    files = [path for path in Path(str(ran.store.path)).rglob("*") if path.is_file()]
    assert [path for path in files if b"PRIVATE KEY" in path.read_bytes()] == []


def test_load_curves_and_held_rates_have_the_protocol_of_the_cell(lab: Lab, run_study: RunStudy) -> None:
    cell = "{stack: nginx, protocol: https1, keepalive: false, key: ecdsa-p256, resumption: false}"
    ran = run_study(lab.inventory(), "tls-cost", f"cells=[{cell}]", "baseline=null")
    ran.check_answers()
    assert sorted(ran.trials["kind"]) == ["calibrate", "held", "measure"]
    assert set(ran.trials["protocol"]) == {"https1"}


def test_capacities_are_searched_before_rates_are_held(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "efficiency", "blocks=1", 'factors.stack=["nethttp", "nginx-go"]')
    measured = ran.trials[ran.trials["kind"] == "measure"]
    at_knee = ran.trials.loc[ran.trials["kind"] == "calibrate", ["trial_id", "connections", "rps"]]
    carried = carried_with(16, at_knee, ran.table("load_curve"))  # as in the scenario
    assert len(carried) == 2
    assert set(measured["rate_requested"]) == {float(int(0.5 * min(carried)))}


@database
def test_a_gateway_has_cpu_time_for_each_of_its_services(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "gateway")
    ran.check_answers()
    (record,) = [each for cell, each in ran.records.items() if "stack=gateway,request=one,pool=8" in cell]
    assert {each.name for each in record.services} == {"database", "data", "hello", "page", "front"}
    assert all(each.cpu_s is not None for each in record.services)


@containers
def test_one_executable_answers_in_every_network_of_containers(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "container-cost", "profile=null")
    ran.check_verdicts()
    unsupported = {cell.cell_id for cell in ran.outcome.run.manifest().cells if cell.unsupported}
    assert unsupported == {"stack=bridge"}
    assert set(ran.trials["probe_status"]) == {200}
