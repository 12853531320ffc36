"""Tests of the check ports-exhausted."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from tests.support.judge.builders import Telemetry, build_generator, build_load, build_trial, finding_of, skip_reason


@pytest.mark.parametrize(("waiting", "expected"), [(834, False), (836, True)])
def test_sockets_near_the_port_range(waiting: int, *, expected: bool) -> None:
    sockets: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {1.0: waiting}}
    found = finding_of("ports-exhausted", build_trial(sockets, load=build_load(keepalive=False)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


NARROW = {"load": {"sysctls": {"net.ipv4.ip_local_port_range": "10001\t10070"}}}


def test_kept_connections_need_no_more_ports() -> None:
    """Ignore sockets in TIME_WAIT of earlier trials."""
    assert finding_of("ports-exhausted", build_trial(facts=NARROW)) is None
    assert finding_of("ports-exhausted", build_trial(facts=NARROW, row={"errors_connect": 3})) is not None


def test_unknown_port_range_is_skipped() -> None:
    short = build_load(keepalive=False)
    assert skip_reason("ports-exhausted", build_trial(facts={"load": {"sysctls": {}}}, load=short))


FULL: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {1.0: 930.0}}
SHORT = build_load(keepalive=False)
PORTS = {"net.ipv4.ip_local_port_range": "10001 11000"}


@pytest.mark.parametrize(("reuse", "failed", "expected"), [("0", 0, True), ("1", 0, False), ("1", 3, True)])
def test_reused_ports_count_only_with_failed_connects(reuse: str, failed: int, *, expected: bool) -> None:
    facts = {"load": {"sysctls": {**PORTS, "net.ipv4.tcp_tw_reuse": reuse}}}
    found = finding_of("ports-exhausted", build_trial(FULL, facts=facts, load=SHORT, row={"errors_connect": failed}))
    assert (found is not None) == expected


def test_open_connections_hold_their_ports() -> None:
    facts = {"load": {"sysctls": {**PORTS, "net.ipv4.tcp_tw_reuse": "1"}}}
    held: Telemetry = {("tcp_sockets", "load", None, "in_use"): {1.0: 930}}
    assert finding_of("ports-exhausted", build_trial(held, facts=facts, load=SHORT)) is not None
    silent = build_trial(held, facts=facts, load=SHORT, row={"errors_connect": None})
    assert "failed connects of load" in skip_reason("ports-exhausted", silent)


@pytest.mark.parametrize(("address", "failed", "expected"), [(1, 0, False), (1, 3, True), (2, 0, True)])
def test_sockets_of_a_server_with_the_same_addresses_do_not_count(address: int, failed: int, *, expected: bool) -> None:
    facts = {
        host: {"interfaces": [{"name": "eth0", "addresses": [f"10.0.0.{last}"]}]}
        for host, last in (("sut", 1), ("load", address))
    }
    found = finding_of("ports-exhausted", build_trial(FULL, facts=facts, load=SHORT, row={"errors_connect": failed}))
    assert (found is not None) == expected


def test_sockets_on_the_servers_host_do_not_count() -> None:
    trial_with_unwatched_host = build_generator(host="sut")
    facts = {"sut": {"sysctls": PORTS}}
    sockets: Telemetry = {("tcp_sockets", "sut", None, state): {1.0: 930} for state in ("time_wait", "in_use")}
    assert (
        finding_of(
            "ports-exhausted", build_trial(sockets, facts=facts, load=SHORT, generators=(trial_with_unwatched_host,))
        )
        is None
    )


def test_sockets_before_the_window_do_not_count() -> None:
    before: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {-0.01: 930}}
    assert skip_reason("ports-exhausted", build_trial(before, load=SHORT))
