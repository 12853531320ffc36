"""Traces of the kernel on a lab: system calls of a request are counted exactly."""

from __future__ import annotations

import pytest

from benchkit.comparison.components import Component, components_of
from tests.faults.fault_lab import FaultLab
from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.qualify.why.pairs import PAIRS, SERVERS, read_without_verdicts
from tests.support.cli.fixtures import Cli

(CALLS,) = (pair for pair in PAIRS if pair.name == "ten system calls more")
PLAIN = "node plain.js {port}"
ATTACH_S = 15.0
"""Time for bpftrace to compile its probes, which takes 1 to 2 s of a core that other tests use, too."""
TRACED = {"profile": None, "blocks": 1, "trace": {"blocks": 3, "duration_s": 5}}


def test_ten_more_system_calls_are_named_and_counted(why_lab: FaultLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchkit.run.steps.profiles.ATTACH_S", ATTACH_S)
    (first, *_) = why_lab.run({**CALLS.scenario, **TRACED})
    run = why_lab.store.run(first.run_id)
    records = [trace for record in run.records() for trace in record.traces]
    assert {each.why_not for each in records} == {None}
    found = components_of(read_without_verdicts(why_lab.store, run.run_id))
    calls = [each for each in found if each.level == "system calls"]
    assert (calls[0].component, calls[0].blocks) == ("getppid", 3)
    assert calls[0].difference == pytest.approx(10, rel=0.02)
    by_name: dict[str, Component] = {each.component: each for each in calls}
    assert by_name["write"].value == pytest.approx(1, rel=0.02)
    assert by_name["write"].baseline_value == pytest.approx(1, rel=0.02)
    assert [each for each in found if each.level == "waiting"]


def test_versus_traces_its_servers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SERVERS)
    load = ("--connections", 8, "--blocks", 2, "--duration", 16, "--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
    constants = {"benchkit.run.steps.profiles:ATTACH_S": ATTACH_S}
    done = cli("versus", PLAIN, f"{PLAIN} 20000", "--names", "plain,slow", "--trace", *load, constants=constants)
    assert done.code == 0, done.err
    parts = cli("why", "--json").document()["components"]
    calls = {each["component"]: each for each in parts if each["level"] == "system calls"}
    sent = [calls[name] for name in ("write", "writev", "sendto", "sendmsg") if name in calls]
    assert sum(each["value"] for each in sent) == pytest.approx(1, rel=0.05)
    assert sum(each["baseline_value"] for each in sent) == pytest.approx(1, rel=0.05)
    assert {each["component"] for each in parts if each["level"] == "waiting"} > {"work in epoll"}
