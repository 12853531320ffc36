"""The studies of containers and of a gateway at their smallest scale: networks, limits, profiles, a database."""

from __future__ import annotations

import shutil

import pytest

from benchkit.lab.lab import Lab
from tests.qualify.studies.conftest import RunStudy, StudyRun
from tests.support.containers.fixtures import docker_lab, engine_state
from tests.support.needs import containers, database, docker

needs_h2load = pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load is not installed")

NETWORKS = {"stack=process", "stack=host", "stack=published", "stack=process-half", "stack=container-half"}
PROXIES = {"stack=proxy", "stack=no-proxy"}


def unsupported(ran: StudyRun) -> dict[str, str]:
    return {cell.cell_id: cell.unsupported for cell in ran.outcome.run.manifest().cells if cell.unsupported}


@containers
@needs_h2load
def test_one_executable_answers_in_every_network(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "container-cost", "profile={blocks: 1, duration_s: 2}")
    ran.check_verdicts()
    refused = unsupported(ran)
    assert set(refused) == PROXIES | {"stack=bridge"}
    assert "only sut reaches" in refused["stack=bridge"]
    assert all("podman of sut has none" in refused[cell] for cell in PROXIES)
    trials = ran.trials[ran.trials["kind"] == "measure"]
    assert set(trials.index) == NETWORKS
    assert (trials["server_cpu_s_per_request"] > 0).all()
    profiled = [record for record in ran.outcome.run.records() if record.kind == "profile"]
    assert {each.cell_id for each in profiled} == NETWORKS
    assert {profile.profiler for each in profiled for profile in each.profiles} == {"pprof"}
    assert {profile.why_not for each in profiled for profile in each.profiles} == {None}


@containers
@docker
@needs_h2load
@pytest.mark.parametrize("cell", ["proxy", "no-proxy"])
def test_docker_publishes_ports_with_its_proxy_or_without(run_study: RunStudy, cell: str) -> None:
    setting = str(cell == "proxy").lower()
    with docker_lab(f"--userland-proxy={setting}") as lab:
        before = engine_state(lab, "sut", "docker")
        ran = run_study(lab.inventory(), "container-cost", "profile=null")
        assert engine_state(lab, "sut", "docker") == before
    refused = unsupported(ran)
    assert set(refused) == PROXIES - {f"stack={cell}"} | {"stack=bridge"}
    trials = ran.trials[ran.trials["kind"] == "measure"]
    assert set(trials.index) == NETWORKS | {f"stack={cell}"}
    assert (trials["server_cpu_s_per_request"] > 0).all()


@database
@needs_h2load
def test_a_gateway_has_a_row_for_each_of_its_services(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "gateway")
    ran.check_verdicts()
    assert unsupported(ran) == {}
    trials = ran.trials
    assert (trials["non_2xx"].fillna(0) == 0).all()
    cpu_s = {
        cell: {each.name: (each.cpu_s or 0.0) / trials["rps"][cell] / record.window_s for each in record.services}
        for cell, record in ran.records.items()
    }
    assert set(cpu_s["stack=gateway,request=one,pool=8"]) == {"database", "data", "hello", "page", "front"}
    one, twenty = (cpu_s[f"stack=direct,request={request},pool=8"] for request in ("one", "twenty"))
    assert twenty["database"] > 5 * one["database"] > 0
