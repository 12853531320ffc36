"""Traces: what bpftrace prints becomes rows by service, level and name."""

from __future__ import annotations

import socket

import pytest

from benchkit.store.profile_tables import (
    CALLS,
    FOR_CPU,
    WAITING,
    read_sums,
)
from tests.support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "traces"
SUMS = (FIXTURES / "bpftrace-0.17.txt").read_text()
APP, FRONT = 1, 2


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
        ("unix_stream_data_wait", "Unix sockets"),
        ("tcp_recvmsg_locked", "sockets"),
        ("unheard_of", "others"),
    ],
)
def test_stacks_say_what_a_thread_waits_for(stack: str, level: str) -> None:
    text = f'{{"type": "map", "data": {{"@blocked_ns": {{"1,\\n __schedule+1\\n {stack}+9\\n": 2000000000}}}}}}'
    assert read_sums(text, "x86_64") == {(1, WAITING, level): 2.0}


@pytest.mark.parametrize(("port", "reason"), [(0, "work in poll"), (5432, "answers of port 5432")])
def test_port_says_whose_answer_a_thread_waits_for(port: int, reason: str) -> None:
    stack = f"1,{socket.htons(port)},\\n __schedule+1\\n do_sys_poll+9\\n"
    text = f'{{"type": "map", "data": {{"@blocked_ns": {{"{stack}": 2000000000}}}}}}'
    assert read_sums(text, "x86_64") == {(1, WAITING, reason): 2.0}
