from __future__ import annotations

import pytest

from benchkit.errors import InputError
from benchkit.lab.spec import LabHost, LabSpec, parse_rate, parse_shape


def test_the_default_is_a_server_and_a_generator() -> None:
    assert [(host.name, host.roles) for host in LabSpec().hosts] == [("sut", ("sut",)), ("load", ("load",))]


@pytest.mark.parametrize(
    ("text", "bps"),
    [("200mbit", 200e6), ("1.5gbit", 1.5e9), ("64kbit", 64e3), ("100000bit", 1e5), ("10Mbit", 10e6), ("1gbit/s", 1e9)],
)
def test_rates_are_tcs_decimal_units(text: str, bps: float) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize("text", ["", "200", "200mb", "200mbps", "mbit", "-1mbit", "1e3mbit", "0mbit", "1bit", "9tbit"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed"):
        parse_rate(text)


def test_options_give_hosts_roles_and_links() -> None:
    spec = parse_shape("x", ["web=sut,nginx", "c1=load", "c2=load"], ["c1=100mbit", "web=1gbit"], shared=True)
    assert spec == LabSpec(
        name="x",
        hosts=(
            LabHost(name="web", roles=("sut", "nginx"), link_bps=1e9),
            LabHost(name="c1", roles=("load",), link_bps=1e8),
            LabHost(name="c2", roles=("load",)),
        ),
        shared=True,
    )


@pytest.mark.parametrize(
    ("hosts", "links", "message"),
    [
        (["sut"], [], "write NAME=ROLE[,ROLE], as in client=load"),
        (["sut="], [], "--host: these hosts do not form a lab: "),
        (["=sut"], [], "found ''"),
        (["a/b=sut"], [], "--host: these hosts do not form a lab: found 'a/b'; allowed"),
        (
            ["a=sut", "a=load"],
            [],
            "--host: these hosts do not form a lab: duplicate host names: a; give all roles of a host in one option",
        ),
        (["a=s;ut"], [], "these hosts do not form a lab"),
        (["localhost=sut"], [], "found 'localhost'"),
        ([f"h{i}=load" for i in range(65)], [], "at most 64 items"),
        ([], ["missing=1mbit"], "--link: no host 'missing' in this lab"),
        ([], ["sut=1 parsec"], "--link: found '1 parsec': allowed"),
    ],
)
def test_invalid_options_are_refused(hosts: list[str], links: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_shape("x", hosts, links, shared=False)
    assert message in str(caught.value)
