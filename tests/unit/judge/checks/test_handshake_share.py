"""Tests of the check handshake-share, and of the handshakes of a trial."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.judge.evidence import Evidence
from benchkit.judge.handshakes import handshakes, handshakes_per_s, resumed_share, server_cpu_s_per_handshake
from benchkit.models.protocol import TlsOptions
from tests.support.judge.builders import Telemetry, build_load, build_slices, build_trial, finding_of, skip_reason


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


def test_a_server_without_counters() -> None:
    evidence = build_trial(protocol="https1", tls=TlsOptions(resumption=False), load=build_load(keepalive=False))
    assert "counts no handshakes" in skip_reason("handshake-share", evidence)
    assert handshakes(evidence) is None
    assert resumed_share(trial(full=0)) is None


def test_figures_of_handshakes() -> None:
    evidence = trial(full=6_000, resumed=3_000)
    assert resumed_share(evidence) == pytest.approx(1 / 3)
    assert handshakes_per_s(evidence) == pytest.approx(3_000)
    assert server_cpu_s_per_handshake(evidence) == pytest.approx(0.9 / 3_000)
    assert server_cpu_s_per_handshake(trial(keepalive=True)) is None


def test_figures_of_handshakes_where_the_tool_goes_on_beyond_its_slices() -> None:
    """Three seconds of slices with 2.7 s of CPU time, in 3.3 s of the tool with 9,900 handshakes."""
    evidence = build_trial(
        counted(9_900, 0),
        row={"duration_s": 3.3},
        slices=build_slices(),
        protocol="https1",
        tls=TlsOptions(resumption=False),
        load=build_load(keepalive=False),
    )
    assert handshakes_per_s(evidence) == pytest.approx(3_000)
    assert server_cpu_s_per_handshake(evidence) == pytest.approx(2.7 / 9_000)
