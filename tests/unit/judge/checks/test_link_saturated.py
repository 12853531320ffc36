"""Tests of the check link-saturated."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from tests.support.judge.builders import Telemetry, build_trial, finding_of, sent_traffic, skip_reason

FAST: dict[str, object] = {"link_bps": 10e9}


def network_card(**fields: object) -> dict[str, object]:
    return {"interfaces": [{"name": "eth0", "speed_bps": 1e9, "virtual": False, "addresses": [], **fields}]}


@pytest.mark.parametrize(("share", "expected"), [(0.89, False), (0.91, True)])
def test_capped_link(share: float, *, expected: bool) -> None:
    capped: dict[str, dict[str, object]] = {"sut": {"link_bps": 50e6}, "load": FAST}
    found = finding_of("link-saturated", build_trial(sent_traffic("sut", share * 50e6), facts=capped))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


def test_received_traffic_counts() -> None:
    received: Telemetry = {
        ("net_sent_bytes_total", "sut", None, "eth0"): {-0.01: 0, 3.05: 10},
        ("net_received_bytes_total", "sut", None, "eth0"): {-0.01: 0, 3.05: 18e6},
    }
    found = finding_of("link-saturated", build_trial(received, facts={"sut": {"link_bps": 50e6}}))
    assert found is not None
    assert "received" in found.seen


@pytest.mark.parametrize(("packets", "expected"), [(0, False), (4_200_000, True)])
def test_small_packets_fill_ethernet(packets: int, *, expected: bool) -> None:
    facts = {"sut": network_card(), "load": FAST}
    found = finding_of("link-saturated", build_trial(sent_traffic("sut", 0.7e9, packets), facts=facts))
    assert (found is not None) == expected


def test_rate_of_a_virtual_interface_is_no_limit() -> None:
    facts = {"sut": network_card(virtual=True), "load": FAST}
    reported = skip_reason("link-saturated", build_trial(sent_traffic("sut", 2e9), facts=facts))
    assert reported == "link speed of sut unknown; set link_bps in the inventory"


@pytest.mark.parametrize(("bits_per_s", "known"), [(0.19e9, True), (0.5e9, False)])
def test_link_that_carried_the_load_needs_a_known_rate(bits_per_s: float, *, known: bool) -> None:
    """Add an interface to one of known rate that carried 0.1 Gbit/s; a bridge counts the same traffic again."""
    facts = {"sut": network_card(), "load": FAST}
    evidence = build_trial(
        {**sent_traffic("sut", 0.1e9), **sent_traffic("sut", bits_per_s, interface="br0")}, facts=facts
    )
    if known:
        assert finding_of("link-saturated", evidence) is None
    else:
        assert "link speed of sut unknown" in skip_reason("link-saturated", evidence)


def test_links_of_every_host_are_checked() -> None:
    facts = {"sut": FAST}
    assert "link speed of load unknown" in skip_reason("link-saturated", build_trial(facts=facts))
    unwatched: Telemetry = {("net_sent_bytes_total", "load", None, "eth0"): {9.0: 0.0}}
    assert skip_reason("link-saturated", build_trial(unwatched, facts=facts)) == "no telemetry for the links of load"
