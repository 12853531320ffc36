from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from benchkit.judge.run_differences import host_differences, setting_differences
from benchkit.models.facts import RecordedFacts
from benchkit.store.row_builders import host_rows
from tests.support.comparison.fixtures import manifest_of

FACTS = {
    "hostname": "one",
    "kernel": "6.1",
    "cpus": [0, 1],
    "clock_offset_s": 0.1,
    "boot_id": "x",
    "workdir": "/tmp/x",  # noqa: S108 - a fact, no file
    "programs": {"nginx": {"path": "/usr/sbin/nginx", "version": "1.22.1"}},
    "sysctls": {"net.core.somaxconn": "4096", "net.ipv4.tcp_tw_reuse": "2"},
    "interfaces": [{"name": "lo", "mtu": 65536}, {"name": "eth0", "mtu": 1500, "addresses": ["10.0.0.1"]}],
    "governor": None,
}


def rows(*hosts: tuple[str, str, str, Mapping[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            asdict(row)
            for name, role, at, facts in hosts
            for row in host_rows(name, [role], at, RecordedFacts.model_validate(facts))
        ]
    )


def test_relevant_facts_are_reported_with_both_values() -> None:
    other = {
        **FACTS,
        "kernel": "6.6",
        "cpus": [0],
        "governor": "performance",
        "programs": {"nginx": {"path": "/opt/nginx", "version": "1.26"}},
        "interfaces": [{"name": "eth0", "mtu": 9000}, {"name": "lo", "mtu": 65536}],
    }
    changes = host_differences(rows(("sut", "sut", "start", FACTS)), rows(("sut", "sut", "start", other)))
    assert [change.text for change in changes] == [
        "host sut: cpus was 0,1, is 0",
        "host sut: governor was absent, is performance",
        "host sut: interfaces.eth0.mtu was 1500, is 9000",
        "host sut: kernel was 6.1, is 6.6",
        "host sut: programs.nginx.version was 1.22.1, is 1.26",
    ]


def test_hosts_are_matched_by_name_then_by_role() -> None:
    before = rows(("old", "sut", "start", FACTS), ("load", "load", "start", FACTS))
    after = rows(("new", "sut", "start", {**FACTS, "kernel": "6.6"}), ("load", "load", "start", FACTS))
    assert [change.text for change in host_differences(before, after)] == ["host new: kernel was 6.1, is 6.6"]
    fewer = host_differences(before, rows(("load", "load", "start", FACTS)))
    assert [change.text for change in fewer] == ["host old: host for sut was old, is absent"]
    more = host_differences(rows(("load", "load", "start", FACTS)), before)
    assert [change.text for change in more] == ["host old: host for sut was absent, is old"]


def test_settings_that_change_results_are_compared() -> None:
    tools = {"wrk": {"threads": 1}}
    one = manifest_of([{}], scenario={"load": {"tool": "wrk", "connections": 64}, "title": "one", "tools": tools})
    other = manifest_of(
        [{}],
        scenario={"load": {"tool": "wrk", "connections": 128}, "title": "other", "tuning": [{"profile": "p"}]},
        versions={"benchkit": "0.2.0"},
    )
    assert [change.text for change in setting_differences(one, other)] == [
        "scenario: load.connections was 64, is 128",
        "scenario: tools.wrk.threads was 1, is absent",
        "scenario: tuning.0.profile was absent, is p",
        "benchkit: version was 0.1.0, is 0.2.0",
    ]
    assert setting_differences(one, one) == ()
