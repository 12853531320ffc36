from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.programs import needed_programs
from benchkit.scenario.read import read_experiment
from benchkit.services.profilers import PERF

SCENARIO = """\
name: small
title: Small
question: Which?
factors: {stack: [go, front]}
stacks:
  go: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
  front:
    entry: web
    services:
      app: {backend: nethttp, listen: "127.0.0.1:9000"}
      web: {backend: nginx, listen: 8080, upstream: app}
blocks: 2
"""
LOAD = "load: {tool: wrk, connections: 4, duration_s: 4}\n"


def read(tmp_path: Path, more: str) -> Experiment:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + more)
    return read_experiment(str(path))


def refused(tmp_path: Path, more: str) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, more)
    return str(caught.value)


@pytest.mark.parametrize(
    "profile",
    [
        "{}",
        "{blocks: 3, settle_s: 2}",
        "{duration_s: 2, frequency_hz: 499, services: [web]}",
        "null",
    ],
)
def test_what_can_be_profiled(tmp_path: Path, profile: str) -> None:
    assert read(tmp_path, f"{LOAD}profile: {profile}\n").cells


@pytest.mark.parametrize(
    ("load", "profile", "said"),
    [
        (LOAD, "{duration_s: 1}", "s.yaml:14: profile: a window of 1 s is too short to profile; set duration_s to at least 2"),
        (LOAD, "{settle_s: 3}", "profile: a window of 4 s is too short to profile; set duration_s to at least 5"),
        (LOAD, "{duration_s: 2.5}", "s.yaml:14: profile.duration_s: wrk takes whole seconds, not 2.5"),
        (LOAD, "{services: [wbe]}", "s.yaml:14: profile.services.0: no stack has a service 'wbe'"),
        (LOAD, "{blocks: 0}", "s.yaml:14: profile.blocks"),
        (LOAD, "{hertz: 99}", "s.yaml:14: profile.hertz"),
        (
            "load: {tool: hey, connections: 4, requests: 100000}\n",
            "{}",
            "profile: the load ends after a number of requests; set the duration of profile trials: duration_s",
        ),
    ],
)  # fmt: skip
def test_what_cannot_is_refused_before_there_are_hosts(tmp_path: Path, load: str, profile: str, said: str) -> None:
    assert said in refused(tmp_path, f"{load}profile: {profile}\n")


def test_perf_is_needed_where_something_without_a_profiler_is_profiled(tmp_path: Path) -> None:
    def perf(profile: str) -> bool:
        needed = needed_programs(read(tmp_path, f"{LOAD}profile: {profile}\n"))
        assert PERF not in needed["load"]
        return PERF in needed["sut"]

    assert perf("{}")
    assert perf("{services: [web]}")
    assert not perf("{services: [app]}")
    assert not perf("null")


def test_every_shipped_scenario_that_profiles_can() -> None:
    for scale in ("paper", "lab", "smoke"):
        experiment = read_experiment("scheduler-overhead", scale)
        assert experiment.scenario.profile is not None
