"""Changes to a host, its lock and its tuning, with a scripted agent."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.host import Host, HostChanges, Leftovers
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.tuning import apply, plan
from tests.support.hosts.fake_link import HOST, FakeLink

RECORD = ops.ChangeRecord("sysctl", "abandoned", "a.b (was 1)")
REPORT = ops.WatchdogReport("report-1", 0.0, "its agent was killed", "r1", ["process nginx (7)", "a.b (was 1)"])
NO_TRACES = ops.HostTraces([], [], None)


def undone(*failures: str, how: str = "undone") -> list[ops.UndoneChange]:
    return [ops.UndoneChange("a.b (was 1)", list(failures), how)]


def test_cleaning_up_a_host_without_traces_restores_nothing() -> None:
    link = FakeLink({Undo.traces: NO_TRACES})
    assert HostChanges(link, HOST).clean_up() == Leftovers()
    assert link.agent.requested(Undo.restore) == []


def test_abandoned_changes_are_restored_and_reports_read_once() -> None:
    traces = replace(NO_TRACES, records=[RECORD], reports=[REPORT])
    link = FakeLink({Undo.traces: traces, Undo.restore: undone(), Records.delete_report: None})
    leftovers = HostChanges(link, HOST).clean_up()
    assert [change.text for change in leftovers.restored] == ["a.b (was 1)"]
    (report,) = leftovers.reports
    assert str(report) == (
        "1970-01-01 00:00:00 UTC, run r1: its agent was killed; undone: process nginx (7), a.b (was 1)"
    )
    assert [each.name for each in link.agent.requested(Records.delete_report)] == ["report-1"]


def test_a_change_that_cannot_be_restored_stops_the_run_and_keeps_the_reports() -> None:
    traces = replace(NO_TRACES, records=[RECORD], reports=[REPORT])
    link = FakeLink({Undo.traces: traces, Undo.restore: undone("a.b is '2'")})
    with pytest.raises(HostError, match=r"changes of an earlier run cannot be restored: a\.b is '2'") as caught:
        HostChanges(link, HOST).clean_up()
    assert "benchkit hosts restore" in (caught.value.hint or "")
    assert link.agent.requested(Records.delete_report) == []


def test_settings_that_the_kernel_refuses_or_changes_are_named() -> None:
    outcomes = {
        "a.b": ops.SysctlOutcome("differs", "1", "4"),
        "c.d": ops.SysctlOutcome("refused", "1", "1", "Invalid argument"),
    }
    link = FakeLink({Sysctls.write: outcomes})
    found = {key: ops.Sysctl("present", "1", writable=True) for key in outcomes}
    spec = HostSpec(name=HOST, address="192.0.2.1", roles=("sut",))
    host = cast("Host", SimpleNamespace(name=HOST, call=link.call))
    result = apply(host, plan(spec, {"a.b": 2, "c.d": 3}, found, root=True, can_sudo=None))
    assert result.sentences == (
        "fake: a.b = 2 not applied: the kernel stored 4 instead",
        "fake: c.d = 3 not applied: Invalid argument",
    )
    (written,) = link.agent.requested(Sysctls.write)
    assert vars(written) == {"values": {"a.b": "2", "c.d": "3"}, "sudo": None, "scope": "run"}
