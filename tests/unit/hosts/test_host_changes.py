"""Changes to a host, its lock and its telemetry, with a scripted agent."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from benchkit.errors import HostError, LostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.host_changes import HostChanges, HostLock, Leftovers
from benchkit.hosts.host_telemetry import Telemetry, TelemetrySummary
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.tuning import apply, plan
from tests.support.hosts.fake_link import HOST, FakeLink, refusal

SYSCTL_RECORD: dict[str, Any] = {"kind": "sysctl", "state": "abandoned", "at": 0.0, "former": {"a.b": "1"}}
REPORT = {
    "name": "report-1",
    "at": 0.0,
    "reason": "its agent was killed",
    "holder": {"run": "r1"},
    "ended": ["nginx (7)"],
    "undone": [{"record": SYSCTL_RECORD}],
    "failures": [],
}


def state(**fields: object) -> dict[str, object]:
    return {"records": [], "orphans": [], "reports": [], "holder": None, **fields}


def undone(*failures: str, how: str = "undone") -> dict[str, object]:
    return {"undone": [{"record": SYSCTL_RECORD, "failures": list(failures), "how": how}]}


def test_cleaning_up_a_host_without_traces_restores_nothing() -> None:
    link = FakeLink({"records": state()})
    assert HostChanges(link, HOST).clean_up() == Leftovers()
    assert [request.op for request in link.agent.requests] == ["records"]


def test_abandoned_changes_are_restored_and_reports_read_once() -> None:
    link = FakeLink(
        {"records": state(records=[SYSCTL_RECORD], reports=[REPORT]), "restore": undone(), "delete_report": {}}
    )
    leftovers = HostChanges(link, HOST).clean_up()
    assert [change.text for change in leftovers.restored] == ["a.b (was 1)"]
    (report,) = leftovers.reports
    assert str(report) == (
        "1970-01-01 00:00:00 UTC, run r1: its agent was killed; undone: process nginx (7), a.b (was 1)"
    )
    assert link.agent.args("delete_report") == [{"name": "report-1"}]


def test_a_change_that_cannot_be_restored_stops_the_run_and_keeps_the_reports() -> None:
    link = FakeLink({"records": state(records=[SYSCTL_RECORD], reports=[REPORT]), "restore": undone("a.b is '2'")})
    with pytest.raises(HostError, match=r"changes of an earlier run cannot be restored: a\.b is '2'") as caught:
        HostChanges(link, HOST).clean_up()
    assert "benchkit hosts restore" in (caught.value.hint or "")
    assert link.agent.args("delete_report") == []


def test_changes_of_another_live_run_are_not_leftovers() -> None:
    link = FakeLink(
        {
            "records": state(records=[SYSCTL_RECORD]),
            "restore": undone("it belongs to another run, which is not finished", how="kept"),
        }
    )
    assert HostChanges(link, HOST).clean_up() == Leftovers()


def test_settings_that_the_kernel_refuses_or_changes_are_named(caplog: pytest.LogCaptureFixture) -> None:
    profile = {"a.b": 2, "c.d": 3}
    outcomes = {
        "a.b": {"outcome": "differs", "former": "1", "value": "4", "why": None},
        "c.d": {"outcome": "refused", "former": "1", "value": "1", "why": "Invalid argument"},
    }
    link = FakeLink(
        {
            "sysctl_read": {"sysctls": {key: {"state": "present", "value": "1", "writable": True} for key in profile}},
            "sysctl_write": {"outcomes": outcomes},
        }
    )
    changes = HostChanges(link, HOST)
    spec = HostSpec(name=HOST, address="192.0.2.1", roles=("sut",))
    tuning = plan(spec, profile, changes.read_sysctls(profile), root=True, can_sudo=None)
    with caplog.at_level(logging.INFO, "benchkit.hosts"):
        result = apply(changes, tuning)
    assert result.sentences == (
        "fake: a.b = 2 not applied: the kernel stored 4 instead",
        "fake: c.d = 3 not applied: Invalid argument",
    )
    assert link.agent.args("sysctl_write") == [{"values": {"a.b": "2", "c.d": "3"}, "sudo": None, "scope": "run"}]
    assert "fake: a.b = 2: differs" in caplog.messages


def test_a_host_in_use_is_refused_with_its_holder() -> None:
    link = FakeLink({"lock": refusal("held", "this host is in use", "r1 of me@laptop")})
    with pytest.raises(RefusedError, match="fake: this host is in use: r1 of me@laptop") as caught:
        HostLock(link, HOST).acquire("r2", "sut", "you@laptop")
    assert caught.value.kind == "held"


def test_the_holder_of_a_host_is_described() -> None:
    running = {"pid": 7, "state": "running", "run": "r1", "who": "me@pc", "since": 0.0, "lease_s": 60.0, "heard_s": 1.5}
    holder = HostChanges(FakeLink({"records": state(holder=running)}), HOST).state().holder
    assert holder is not None
    assert (str(holder), holder.heartbeat_age_s) == ("r1 of me@pc since 1970-01-01 00:00:00 UTC", 1.5)
    silent = HostLock(FakeLink({"release": {"ended": {"pid": 7, "state": "silent"}}}), HOST).release()
    assert str(silent) == "process 7, which does not answer"
    assert HostLock(FakeLink({"release": {"ended": None}}), HOST).release() is None


def test_telemetry_of_a_host() -> None:
    summary = {"cpu_quota": 1.5, "unseen": ["clock rate: the host does not report it"]}
    link = FakeLink(
        {
            "telemetry_start": {},
            "telemetry_snapshot": {"at_ns": 9, "processes": {"app": [[40, 1]]}},
            "telemetry_latest": {"services": {"app": {"cpu_s_total": [3, 0.5]}}},
            "telemetry_stop": {"summary": summary},
        }
    )
    telemetry = Telemetry(link)
    telemetry.start("watch.jsonl", 1.0)
    assert telemetry.snapshot().processes == {"app": ((40, 1),)}
    assert telemetry.latest() == {"app": {"cpu_s_total": (3, 0.5)}}
    assert telemetry.stop() == TelemetrySummary(1.5, ("clock rate: the host does not report it",))
    assert Telemetry(FakeLink({"telemetry_stop": {"summary": None}})).stop() is None


def test_nothing_is_requested_over_a_dead_link() -> None:
    link = FakeLink({"records": None})
    changes = HostChanges(link, HOST)
    for _ in range(2):
        with pytest.raises(LostError):
            changes.records()
    assert len(link.agent.requests) == 1
