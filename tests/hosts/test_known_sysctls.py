from __future__ import annotations

from benchkit.hosts.known_sysctls import advice, is_made_up


def test_a_misspelt_setting_is_distinguished_from_one_that_kernels_removed() -> None:
    assert is_made_up("net.core.somaxcon")
    assert advice("net.core.somaxcon").startswith("did you mean 'net.core.somaxconn'?")
    assert not is_made_up("net.ipv4.tcp_tw_recycle")
    assert not is_made_up("net.netfilter.nf_conntrack_max")
