from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from benchkit.errors import HostError
from benchkit.lab.namespaces import cap_discipline, choose_subnet


def test_the_network_overlaps_no_route() -> None:
    first = choose_subnet([], 5)
    assert first == IPv4Network("198.18.5.0/24")
    assert choose_subnet([first, IPv4Network("198.18.6.7/32")], 5) == IPv4Network("198.18.7.0/24")


def test_no_free_network_is_an_error() -> None:
    with pytest.raises(HostError, match="no free network"):
        choose_subnet([IPv4Network("198.18.0.0/15")], 0)


def test_a_bucket_has_ten_milliseconds_and_at_least_an_offloaded_packet() -> None:
    assert cap_discipline(None) is None
    assert cap_discipline(200e6) == "root tbf rate 200000000bit burst 250000b latency 50ms"
    assert cap_discipline(1e6) == "root tbf rate 1000000bit burst 65536b latency 50ms"
