"""Tests of checks of one limit: handshakes, connections, ports, requests in flight, and gaps between samples."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchkit.judge.check import ALL, LOAD
from benchkit.judge.evidence import Evidence
from benchkit.judge.usage import handshakes_per_s, server_cpu_s_per_handshake
from benchkit.models.protocol import TlsOptions
from benchkit.models.rows import SliceRow
from tests.support.judge.builders import (
    Telemetry,
    build_load,
    build_slices,
    build_trial,
    build_watch,
    finding_of,
    skip_reason,
)


def counted(full: float, resumed: float) -> Telemetry:
    """Return the counters of a server that made handshakes in the window, and ten full ones before it."""
    counts = {"full": (10.0, 10 + full), "resumed": (0.0, resumed)}
    return {
        ("tls_handshakes_total", "sut", "app", kind): {-0.01: before, 3.05: after}
        for kind, (before, after) in counts.items()
    }


def trial(full: float = 9_000, resumed: float = 0, *, wanted: bool = False, keepalive: bool = False) -> Evidence:
    return build_trial(
        counted(full, resumed),
        protocol="https1",
        tls=TlsOptions(resumption=wanted),
        load=build_load(keepalive=keepalive),
    )


@pytest.mark.parametrize(
    ("evidence", "is_found"),
    [
        (trial(), False),
        (trial(resumed=80), False),
        (trial(resumed=100), True),
        (trial(full=0, resumed=9_000), True),
        (trial(resumed=9_000, wanted=True), False),
        (trial(resumed=9_000, keepalive=True), False),
    ],
)
def test_resumed_sessions_where_full_handshakes_are_wanted(evidence: Evidence, *, is_found: bool) -> None:
    found = finding_of("handshake-share", evidence)
    assert (found is not None) == is_found
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


def test_figures_of_handshakes() -> None:
    evidence = trial(full=6_000, resumed=3_000)
    assert handshakes_per_s(evidence) == pytest.approx(3_000)
    assert server_cpu_s_per_handshake(evidence) == pytest.approx(0.9 / 3_000)
    assert server_cpu_s_per_handshake(trial(keepalive=True)) is None


def connection_counts(*counts: float) -> Telemetry:
    return connections_at(dict(zip((0.5, 1.0, 1.5), counts, strict=True)))


def connections_at(counts: Mapping[float, float]) -> Telemetry:
    return {("connections_established", "sut", "app", "8080"): dict(counts)}


@pytest.mark.parametrize(("counts", "expected"), [((64, 61, 64), False), ((64, 60, 64), True)])
def test_fewest_connections_of_all_samples(counts: tuple[float, ...], *, expected: bool) -> None:
    found = finding_of("missing-connections", build_trial(connection_counts(*counts)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


def test_connections_of_quic_are_those_that_the_server_states() -> None:
    """Ask no table of TCP: the builder's connections on the port are none of QUIC, nor are sockets in TIME_WAIT."""
    none = "the connections were not counted: app states none of QUIC, and the kernel knows none"
    assert skip_reason("missing-connections", build_trial(protocol="h3")) == none
    for fewest, expected in ((64, False), (3, True)):
        counts: Telemetry = {("quic_connections", "sut", "app", None): {0.5: 64, 1.5: fewest}}
        found = finding_of("missing-connections", build_trial(counts, protocol="h3"))
        assert (found is not None) == expected
    sockets: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {1.0: 836}}
    short = build_load(keepalive=False)
    assert finding_of("ports-exhausted", build_trial(sockets, load=short, protocol="h3")) is None


@pytest.mark.parametrize(("waiting", "expected"), [(834, False), (836, True)])
def test_sockets_near_the_port_range(waiting: int, *, expected: bool) -> None:
    sockets: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {1.0: waiting}}
    short = build_load(keepalive=False)
    found = finding_of("ports-exhausted", build_trial(sockets, load=short, row={"errors_connect": 3}))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)
    assert finding_of("ports-exhausted", build_trial(sockets, load=short)) is None, "no connect failed"
    without = build_trial(facts={"load": {"sysctls": {}}}, load=short, row={"errors_connect": 3})
    assert skip_reason("ports-exhausted", without) == "the sockets or the port range of load are unknown"


@pytest.mark.parametrize(("factor", "expected"), [(0.81, False), (0.79, True), (1.19, False), (1.21, True)])
def test_deviation_in_both_directions(factor: float, *, expected: bool) -> None:
    found = finding_of("littles-law", build_trial(row={"latency_mean_s": factor * 64 / 50_000}))
    assert (found is not None) == expected
    if found is not None:
        assert (found.severity, found.metrics) == ("invalid", LOAD)
        assert ("hung" in found.means) == (factor < 1)


@pytest.mark.parametrize(("factor", "severity"), [(0.7, "suspect"), (1.3, "invalid")])
def test_connections_that_wait_for_a_whole_slice_are_no_contradiction(factor: float, severity: str) -> None:
    found = finding_of("littles-law", build_trial(row={"latency_mean_s": factor * 64 / 50_000}, slices=build_slices()))
    assert found is not None
    assert (found.severity, "most of a slice" in found.means) == (severity, factor < 1)


def test_short_connections_need_a_latency_that_includes_connecting() -> None:
    short = build_load(keepalive=False)
    assert skip_reason("littles-law", build_trial(load=short))
    covered = {"latency_covers": "connect+request"}
    assert finding_of("littles-law", build_trial(load=short, row=covered)) is None


def samples_at(*instants: float) -> Telemetry:
    return {("load1", "sut", None, None): dict.fromkeys(instants, 1.0)}


def is_stalled(interval_s: float, *instants: float, slices: tuple[SliceRow, ...] = ()) -> bool:
    watched = (build_watch("sut", interval_s=interval_s), build_watch("load"))
    without = tuple(set(build_trial().telemetry.metrics) - {"load1"})
    evidence = build_trial(samples_at(*instants), watched=watched, without=without, slices=slices)
    found = finding_of("stalled", evidence)
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)
    return found is not None


def test_gap_in_the_window() -> None:
    assert not is_stalled(0.5, -0.01, 0.4, 1.8, 3.05)
    assert is_stalled(0.4, -0.01, 0.4, 1.8, 3.05)


def test_slices_longer_than_the_interval_are_sampled_at_their_edges() -> None:
    slices = build_slices(6, duration_s=0.5)
    assert not is_stalled(0.1, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, slices=slices)
    assert is_stalled(0.1, 0.0, 0.5, 2.1, 2.5, 3.0, slices=slices)
    assert not is_stalled(1.0, 0.0, 2.9, slices=slices), "three intervals, which are longer than slices"
