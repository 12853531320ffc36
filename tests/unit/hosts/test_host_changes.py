"""Changes to a host, its lock and its telemetry, with a scripted agent."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from benchkit.agent import operations as ops
from benchkit.errors import HostError, LostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.host_changes import HostChanges, HostLock, Leftovers
from benchkit.hosts.host_telemetry import Telemetry
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


NO_TRACES = ops.HostRecords([], [], [], None)


def undone(*failures: str, how: str = "undone") -> list[ops.UndoneChange]:
    return [ops.UndoneChange(SYSCTL_RECORD, list(failures), how)]


def test_cleaning_up_a_host_without_traces_restores_nothing() -> None:
    link = FakeLink({ops.ListRecords: NO_TRACES})
    assert HostChanges(link, HOST).clean_up() == Leftovers()
    assert link.agent.requests == [ops.ListRecords()]


def test_abandoned_changes_are_restored_and_reports_read_once() -> None:
    link = FakeLink(
        {
            ops.ListRecords: replace(NO_TRACES, records=[SYSCTL_RECORD], reports=[REPORT]),
            ops.Restore: undone(),
            ops.DeleteReport: None,
        }
    )
    leftovers = HostChanges(link, HOST).clean_up()
    assert [change.text for change in leftovers.restored] == ["a.b (was 1)"]
    (report,) = leftovers.reports
    assert str(report) == (
        "1970-01-01 00:00:00 UTC, run r1: its agent was killed; undone: process nginx (7), a.b (was 1)"
    )
    assert link.agent.requested(ops.DeleteReport) == [ops.DeleteReport("report-1")]


def test_a_change_that_cannot_be_restored_stops_the_run_and_keeps_the_reports() -> None:
    link = FakeLink(
        {
            ops.ListRecords: replace(NO_TRACES, records=[SYSCTL_RECORD], reports=[REPORT]),
            ops.Restore: undone("a.b is '2'"),
        }
    )
    with pytest.raises(HostError, match=r"changes of an earlier run cannot be restored: a\.b is '2'") as caught:
        HostChanges(link, HOST).clean_up()
    assert "benchkit hosts restore" in (caught.value.hint or "")
    assert link.agent.requested(ops.DeleteReport) == []


def test_changes_of_another_live_run_are_not_leftovers() -> None:
    link = FakeLink(
        {
            ops.ListRecords: replace(NO_TRACES, records=[SYSCTL_RECORD]),
            ops.Restore: undone("it belongs to another run, which is not finished", how="kept"),
        }
    )
    assert HostChanges(link, HOST).clean_up() == Leftovers()


def test_settings_that_the_kernel_refuses_or_changes_are_named(caplog: pytest.LogCaptureFixture) -> None:
    profile = {"a.b": 2, "c.d": 3}
    outcomes = {
        "a.b": ops.SysctlOutcome("differs", "1", "4"),
        "c.d": ops.SysctlOutcome("refused", "1", "1", "Invalid argument"),
    }
    link = FakeLink(
        {
            ops.ReadSysctls: {key: ops.Sysctl("present", "1", writable=True) for key in profile},
            ops.WriteSysctls: outcomes,
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
    assert link.agent.requested(ops.WriteSysctls) == [ops.WriteSysctls({"a.b": "2", "c.d": "3"}, None, "run")]
    assert "fake: a.b = 2: differs" in caplog.messages


def test_a_host_in_use_is_refused_with_its_holder() -> None:
    link = FakeLink({ops.LockHost: refusal("held", "this host is in use", "r1 of me@laptop")})
    with pytest.raises(RefusedError, match="fake: this host is in use: r1 of me@laptop") as caught:
        HostLock(link, HOST).acquire("r2", "sut", "you@laptop")
    assert caught.value.kind == "held"


def test_the_holder_of_a_host_is_described() -> None:
    running = ops.LockHolder(
        7, 0, "running", run="r1", host="sut", who="me@pc", since=0.0, lease_s=60.0, heartbeat_age_s=1.5
    )
    holder = HostChanges(FakeLink({ops.ListRecords: replace(NO_TRACES, holder=running)}), HOST).state().holder
    assert (holder, str(holder)) == (running, "r1 of me@pc since 1970-01-01 00:00:00 UTC")
    silent = HostLock(FakeLink({ops.ReleaseHost: ops.LockHolder(7, None, "silent")}), HOST).release()
    assert str(silent) == "process 7, which does not answer"
    assert HostLock(FakeLink({ops.ReleaseHost: None}), HOST).release() is None


def test_telemetry_of_a_host() -> None:
    summary = ops.TelemetrySummary(1.5, ["clock rate: the host does not report it"])
    link = FakeLink(
        {
            ops.StartTelemetry: None,
            ops.TakeSnapshot: ops.TelemetrySnapshot(9, {"app": ((40, 1),)}),
            ops.ReadLatest: {"app": {"cpu_s_total": (3, 0.5)}},
            ops.StopTelemetry: summary,
        }
    )
    telemetry = Telemetry(link)
    telemetry.start("watch.jsonl", 1.0)
    assert telemetry.snapshot().processes == {"app": ((40, 1),)}
    assert telemetry.latest() == {"app": {"cpu_s_total": (3, 0.5)}}
    assert telemetry.stop() == summary
    assert Telemetry(FakeLink({ops.StopTelemetry: None})).stop() is None


def test_nothing_is_requested_over_a_dead_link() -> None:
    link = FakeLink({ops.ListRecords: LostError("it ends", where=HOST)})
    changes = HostChanges(link, HOST)
    for _ in range(2):
        with pytest.raises(LostError):
            changes.records()
    assert len(link.agent.requests) == 1
