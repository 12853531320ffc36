from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import PurePosixPath

import pytest

from benchkit.errors import InputError, UnsupportedError
from benchkit.hosts.inventory import HostSpec
from benchkit.models.facts import HostFacts, Interface, ProgramFact
from benchkit.plan.cells import (
    HostCapabilities,
    local_ports,
    place_on,
    version_numbers,
)
from benchkit.plan.planner import _quotas_not_applied
from benchkit.services.placement import CpuQuota
from tests.support.builders import experiment


def capabilities(
    address: str = "10.0.0.5",
    own: tuple[str, ...] = ("10.0.0.5",),
    service_address: IPv4Address | None = None,
    **changes: object,
) -> HostCapabilities:
    facts = {
        "hostname": "box",
        "os": "linux",
        "kernel": "6.1",
        "machine": "x86_64",
        "goarch": "amd64",
        "python": "3.11.2",
        "cpus": (2, 3),
        "user": "bench",
        "uid": 1000,
        "nofile_hard": 1024,
        "clock_offset_s": 0.0,
        "clock_uncertainty_s": 0.0,
        "interfaces": (
            Interface(name="lo", addresses=("127.0.0.1", "::1")),
            Interface(name="eth0", addresses=("fe80::1", *own)),
        ),
        "programs": {"nginx": ProgramFact(path="/usr/sbin/nginx", version="1.22.1")},
        "sysctls": {"net.ipv4.ip_local_port_range": "32768 60999"},
        "workdir": "/home/benchkit",
    }
    spec = HostSpec(name="box", address=address, roles=("sut",), service_address=service_address)
    return HostCapabilities(spec, HostFacts.model_validate(facts | changes))


@pytest.mark.parametrize(
    ("address", "own", "wanted"),
    [
        ("10.0.0.5", ("10.0.0.5",), "10.0.0.5"),
        ("10.0.0.6", ("10.0.0.5", "10.0.0.6"), "10.0.0.6"),
        ("203.0.113.9", ("10.0.0.5",), "10.0.0.5"),  # translated on the way
        ("box.example", ("10.0.0.5",), "10.0.0.5"),
        ("127.0.0.2", (), "127.0.0.2"),  # a lab on loopback
        ("box.example", ("fd00::5",), "fd00::5"),
    ],
)
def test_services_bind_to_an_address_that_other_hosts_reach(address: str, own: tuple[str, ...], wanted: str) -> None:
    assert capabilities(address, own).address == wanted


def test_the_error_for_a_host_without_an_address_has_a_hint() -> None:
    with pytest.raises(InputError, match=r"service_address: 10\.0\.0\.1"):
        _ = capabilities("box.example", ()).address


def test_a_role_takes_the_first_cpus_of_its_host() -> None:
    place = place_on(capabilities(), PurePosixPath("/f"), "sut", 1)
    assert (place.cpus, place.root, place.nofile) == ((2,), False, 1024)
    assert place.programs["nginx"].version == (1, 22, 1)
    with pytest.raises(UnsupportedError, match="role sut: cpus 3: box has 2 CPUs for this role"):
        place_on(capabilities(), PurePosixPath("/f"), "sut", 3)
    with pytest.raises(UnsupportedError, match="Go does not build for mips"):
        place_on(capabilities(machine="mips", goarch=None), PurePosixPath("/f"), "sut", "all")


def test_limits_of_connections_come_from_facts_and_tuning() -> None:
    assert (capabilities().nofile, local_ports(capabilities())) == (1024, 28232)
    assert (capabilities(nofile_hard=None).nofile, local_ports(capabilities(sysctls={}))) == (1 << 20, None)
    tuned = replace(capabilities(), tuned={"net.ipv4.ip_local_port_range": "1025 65535"}, tuned_nofile=200000)
    assert local_ports(tuned) == 64511
    assert place_on(tuned, PurePosixPath("/f"), "sut", "all").nofile == 200000


def test_versions_compare_by_their_numbers() -> None:
    assert version_numbers("1.22.1") == (1, 22, 1)
    assert version_numbers("4.1.0-3+b2") == (4, 1, 0)
    assert version_numbers(None) == version_numbers("unknown") == ()


def test_a_quota_needs_control_groups() -> None:
    able, unable = capabilities(cpu_groups=True), capabilities(cpu_groups=False)
    assert place_on(able, PurePosixPath("/f"), "sut", "all", 0.4).quota == CpuQuota("sut", 0.4)
    assert place_on(able, PurePosixPath("/f"), "sut", "all").quota is None
    assert place_on(unable, PurePosixPath("/f"), "sut", "all", 0.4).quota is None
    halved = experiment(roles={"sut": {"quota": 0.4}, "load": {}})
    roles = {"sut": ("box",), "load": ("box",)}
    assert list(_quotas_not_applied(halved, roles, {"box": able})) == []
    assert list(_quotas_not_applied(halved, roles, {"box": unable})) == [
        "box: not applied, bench may not create a control group with the CPU controller there: quota 0.4 of role sut"
    ]
