"""The pauses of a slice: a lead for its connections, and a margin in which its load tools end."""

from __future__ import annotations

import pytest

from benchkit.loadtools.load_shares import (
    CONNECT_S,
    HANDSHAKE_S,
    LEAST_LEAD_S,
    MARGIN_S,
    Pauses,
    lead_s,
    pauses,
    turn_s,
)
from benchkit.models.load import Load


def load_of(tool: str, connections: int) -> Load:
    return Load(tool=tool, connections=connections, duration_s=0.25)


@pytest.mark.parametrize("tool", ["h2load", "openloop"])
@pytest.mark.parametrize("connections", [1, 16, 64, 101, 1000, 4000])
def test_a_lead_has_time_for_each_connection(tool: str, connections: int) -> None:
    lead = lead_s(load_of(tool, connections))
    needed = connections * CONNECT_S
    assert lead == LEAST_LEAD_S if needed < LEAST_LEAD_S else needed <= lead + 1e-9 < needed + 0.0011
    assert lead * 1000 == pytest.approx(round(lead * 1000)), "h2load takes whole milliseconds"


def test_handshakes_take_longer() -> None:
    assert lead_s(load_of("h2load", 64), has_tls=True) == pytest.approx(64 * (CONNECT_S + HANDSHAKE_S), abs=0.001)
    assert lead_s(load_of("hey", 64), has_tls=True) == LEAST_LEAD_S


@pytest.mark.parametrize("tool", ["hey", "vegeta"])
def test_tools_that_connect_within_their_measured_time_have_a_short_lead(tool: str) -> None:
    assert lead_s(load_of(tool, 4000)) == LEAST_LEAD_S


def test_a_turn_is_lead_window_and_margin() -> None:
    assert turn_s(Pauses(0.02, 0.01), 0.25) == pytest.approx(0.28)


def test_a_tool_that_goes_on_beyond_its_time_has_a_longer_margin() -> None:
    assert pauses(load_of("h2load", 16)) == (LEAST_LEAD_S, MARGIN_S)
    wrk = Load(tool="wrk", connections=16, duration_s=1)
    assert pauses(wrk).margin_s == pytest.approx(MARGIN_S + 0.1), "it looks at its clock ten times a second"
