from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.lab.limits import divide_cpus
from benchkit.lab.spec import LabHost

SUT = LabHost(name="sut", roles=("sut",))
LOAD = LabHost(name="load", roles=("load",))
LOAD2 = LabHost(name="load2", roles=("load",))
NGINX = LabHost(name="nginx", roles=("nginx",))


def singles(number: int) -> list[tuple[int, ...]]:
    return [(cpu,) for cpu in range(number)]


@pytest.mark.parametrize(
    ("cores", "hosts", "expected"),
    [
        (singles(1), (SUT, LOAD), {"sut": (0,), "load": (0,)}),
        (singles(2), (SUT, LOAD), {"sut": (0,), "load": (1,)}),
        (singles(2), (SUT, LOAD, NGINX), {"sut": (0,), "load": (1,), "nginx": (1,)}),
        (singles(3), (SUT, LOAD), {"sut": (0,), "load": (1, 2)}),
        (singles(4), (LOAD, SUT), {"sut": (0, 1), "load": (2, 3)}),
        (singles(4), (SUT, LOAD, LOAD2), {"sut": (0, 1), "load": (2,), "load2": (3,)}),
        (singles(8), (SUT, NGINX, LOAD), {"sut": (0, 1, 2, 3), "nginx": (4, 5), "load": (6, 7)}),
        ([(0, 4), (1, 5), (2, 6), (3, 7)], (SUT, LOAD), {"sut": (0, 1, 4, 5), "load": (2, 3, 6, 7)}),
        (singles(4), (NGINX, LOAD, LOAD2), {"nginx": (0,), "load": (1,), "load2": (2, 3)}),
    ],
)
def test_servers_get_the_first_half_and_others_the_second(
    cores: list[tuple[int, ...]], hosts: tuple[LabHost, ...], expected: dict[str, tuple[int, ...]]
) -> None:
    assert divide_cpus(hosts, cores, shared=False) == expected


@given(cores=st.integers(2, 64), servers=st.integers(0, 8), others=st.integers(0, 8))
def test_every_core_is_used_and_none_is_shared_unnecessarily(cores: int, servers: int, others: int) -> None:
    hosts = [LabHost(name=f"s{i}", roles=("sut",)) for i in range(servers)]
    hosts += [LabHost(name=f"o{i}", roles=("load",)) for i in range(others)]
    if not hosts:
        return
    cpus = divide_cpus(hosts, singles(cores), shared=False)
    assert set(cpus) == {host.name for host in hosts}
    assert all(cpus.values())
    for one, other in combinations(hosts, 2):
        if one.roles != other.roles:
            assert not set(cpus[one.name]) & set(cpus[other.name])
    if servers + others <= cores // 2:
        assert sorted(cpu for own in cpus.values() for cpu in own) == list(range(cores))
