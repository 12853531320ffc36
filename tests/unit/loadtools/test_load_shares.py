"""Division of a load among generators, and unsupported fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.loadtools.load_shares import (
    ANSWERS_S,
    CONNECT_S,
    HANDSHAKE_S,
    LEAST_LEAD_S,
    MARGIN_S,
    Pauses,
    divide_load,
    lead_s,
    pauses,
    turn_s,
    unsupported_fields,
    warm_up_load,
)
from benchkit.loadtools.registry import TOOLS
from benchkit.models.load import Load


def _load(tool: str = "hey", **fields: Any) -> Load:  # noqa: ANN401 - any field of a load
    return Load.model_validate({"tool": tool, "connections": 16, "duration_s": 5, **fields})


def test_the_first_shares_get_the_remainders() -> None:
    parts = divide_load(_load(connections=10, duration_s=None, request_count=23, rate=100, processes=4), 4)
    assert [part.connections for part in parts] == [3, 3, 2, 2]
    assert [part.request_count for part in parts] == [6, 6, 6, 5]
    assert [part.rate for part in parts] == [25.0] * 4
    assert [part.rate for part in divide_load(_load(rate=100), 3)] == [33.334, 33.333, 33.333]


def test_one_generator_gets_the_whole_load() -> None:
    load = _load(rate=1 / 3)
    assert divide_load(load, 1) == (load,)


@given(st.integers(1, 40), st.integers(1, 5000), st.integers(1, 10**7), st.integers(1, 10**6))
def test_shares_add_up_to_the_load(generators: int, connections: int, requests: int, thousandths: int) -> None:
    load = _load(connections=connections, duration_s=None, request_count=requests, rate=thousandths / 1000)
    if min(connections, requests, thousandths) < generators:
        with pytest.raises(ValueError, match="is too few for"):
            divide_load(load, generators)
        return
    parts = divide_load(load, generators)
    assert sum(part.connections for part in parts) == connections
    assert sum(part.request_count or 0 for part in parts) == requests
    assert sum(round((part.rate or 0) * 1000) for part in parts) == thousandths
    for figures in ([p.connections for p in parts], [p.request_count or 0 for p in parts]):
        assert figures == sorted(figures, reverse=True)
        assert max(figures) - min(figures) <= 1


def test_the_warm_up_is_the_same_load_for_the_warm_up_time() -> None:
    load = _load(duration_s=None, request_count=800, warmup_s=2)
    assert warm_up_load(load) == _load(duration_s=2, warmup_s=2, histogram=False)


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "fewer connections than generators": (
        {"connections": 7},
        8,
        "connections",
        "7 is too few for 8 generators: each needs a share",
    ),
    "fewer requests than generators": (
        {"duration_s": None, "request_count": 3, "connections": 8},
        4,
        "request_count",
        "3 is too few for 4 generators",
    ),
    "a rate that thousandths do not divide": ({"rate": 1 / 3}, 2, "rate", "in thousandths"),
    "a share that hey does not make": (
        {"duration_s": None, "request_count": 100, "connections": 12},
        4,
        "request_count",
        "not divisible by 3 connections (in the share of one of 4 generators)",
    ),
    "a share with fewer connections than threads": (
        {"tool": "wrk", "threads": 8},
        4,
        "threads",
        "8 threads need at least 8 connections, not 4 (in the share of one of 4 generators)",
    ),
    "a warm-up that the tool cannot take": ({"tool": "wrk", "warmup_s": 0.5}, 1, "warmup_s", "wrk takes whole seconds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_shares_are_refused_by_field(case: str) -> None:
    fields, generators, field, why = REFUSED[case]
    load = _load(**fields)
    (unsupported,) = unsupported_fields(TOOLS[load.tool], load, generators)
    assert unsupported.field == field
    assert why in unsupported.why


def test_a_load_too_large_for_one_generator_may_fit_several() -> None:
    load = _load(connections=200, duration_s=None, request_count=8_000_000)
    assert [o.field for o in unsupported_fields(TOOLS["hey"], load, 1)] == ["request_count"]
    assert unsupported_fields(TOOLS["hey"], load, 8) == ()


def test_an_unsupported_field_is_stated_once_for_all_generators() -> None:
    found = unsupported_fields(TOOLS["siege"], _load("siege", connections=17, method="TRACE", rate=8, warmup_s=1), 4)
    assert [unsupported.field for unsupported in found] == ["rate", "method"]


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


def test_the_last_answers_of_a_slice_at_a_rate_come_in_its_margin() -> None:
    at_a_rate = Load(tool="openloop", connections=16, duration_s=1, rate=100)
    assert pauses(at_a_rate).margin_s == pytest.approx(MARGIN_S + ANSWERS_S)
