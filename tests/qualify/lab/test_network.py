from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from benchkit.lab.namespaces import choose_subnet

POOL = list(IPv4Network("198.18.0.0/15").subnets(new_prefix=24))


@given(st.lists(st.sampled_from(POOL), max_size=40), st.integers(0, 2**32))
def test_the_network_never_overlaps(used: list[IPv4Network], seed: int) -> None:
    assert not any(choose_subnet(used, seed).overlaps(network) for network in used)
