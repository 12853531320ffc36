from __future__ import annotations

from benchkit.hosts.tuning import is_unknown, spelling_hint


def test_a_misspelt_setting_is_distinguished_from_one_that_kernels_removed() -> None:
    assert is_unknown("net.core.somaxcon")
    assert spelling_hint("net.core.somaxcon").startswith("did you mean 'net.core.somaxconn'?")
    assert not is_unknown("net.ipv4.tcp_tw_recycle")
    assert not is_unknown("net.netfilter.nf_conntrack_max")
