"""Traces: what bpftrace and perf print becomes rows by service, level and name."""

from __future__ import annotations

import pytest

from benchkit.models.trial import Tracer, TraceRecord
from benchkit.store.profile_tables import (
    CALLS,
    FOR_CPU,
    WAITING,
    read_calls,
    read_sums,
    trace_rows,
)
from tests.support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "traces"
SUMS = (FIXTURES / "bpftrace-0.17.txt").read_text()
APP, FRONT = 1, 2


def record_of(tracer: Tracer, **fields: object) -> TraceRecord:
    times = {"file": "trace.txt", "started_s": 1.0, "ended_s": 4.0}
    services = ("app", "front") if tracer == "bpftrace" else ("app",)
    named = {"services": services, "host": "sut", "tracer": tracer, "machine": "x86_64"}
    return TraceRecord.model_validate({**named, **times, **fields})


def test_system_calls_have_the_names_of_the_architecture() -> None:
    calls = {key[::2]: value for key, value in read_sums(SUMS, "x86_64").items() if key[1] == CALLS}
    assert calls[FRONT, "recvfrom"] == pytest.approx(calls[FRONT, "writev"], rel=1e-3)
    assert {"read", "write", "epoll_pwait", "futex"} <= {name for service, name in calls if service == APP}
    on_arm = {key[2] for key in read_sums(SUMS, "aarch64") if key[1] == CALLS}
    assert "recvfrom" not in on_arm


def test_threads_wait_for_work_locks_and_a_cpu() -> None:
    waits = {key[::2]: value for key, value in read_sums(SUMS, "x86_64").items() if key[1] == WAITING}
    assert {name for service, name in waits if service == FRONT} == {"work in epoll", FOR_CPU}
    assert (APP, "locks, or work of idle threads (futex)") in waits
    assert all(0 < seconds < 60 for seconds in waits.values())


@pytest.mark.parametrize(
    ("stack", "level"),
    [
        ("do_nanosleep", "timers"),
        ("anon_pipe_read", "pipes"),
        ("io_schedule", "disk"),
        ("folio_wait_bit_common", "disk"),
        ("inet_csk_accept", "connections"),
        ("unheard_of", "others"),
    ],
)
def test_stacks_say_what_a_thread_waits_for(stack: str, level: str) -> None:
    text = f'{{"type": "map", "data": {{"@blocked_ns": {{"1,\\n __schedule+1\\n {stack}+9\\n": 2000000000}}}}}}'
    assert read_sums(text, "x86_64") == {(1, WAITING, level): 2.0}


def test_perf_counts_calls_of_all_requests() -> None:
    text = (FIXTURES / "perf-stat-calls.txt").read_text()
    calls = read_calls(text)
    assert (calls["write"], calls["getppid"]) == (15_123, 151_230)
    assert sum(calls.values()) == 194_529
    assert calls["others"] == 1459
    (rows, notes) = trace_rows("t", [record_of("perf")], lambda _: text.encode())
    assert {(row.service, row.level) for row in rows} == {("app", CALLS)}
    assert (notes, rows[0].traced_s) == ((), 3.0)
