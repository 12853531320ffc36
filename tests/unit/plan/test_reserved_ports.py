"""The ports that a run reserves on its hosts: on values, and on the hosts of a lab."""

from __future__ import annotations

import pytest

from benchkit.plan.tuning_plan import add_reserved_ports


@pytest.mark.parametrize(
    ("reserved", "ports", "port_range", "wanted"),
    [
        ("", {8080}, "1025 65535", "8080"),
        ("", {8081, 8080, 9000}, "1025\t65535", "8080-8081,9000"),
        ("8082,10000-10009", {8080, 8081}, "1025 65535", "8080-8082,10000-10009"),
        ("8000-9000", {8080}, "1025 65535", None),
        ("", {8080}, "32768 60999", None),
        ("7", {8080, 40000}, "32768 60999", "7,40000"),
        ("", set(), "1025 65535", None),
        ("", {8080}, None, None),
    ],
)
def test_ports_are_added_to_those_that_the_host_has_reserved(
    reserved: str, ports: set[int], port_range: str | None, wanted: str | None
) -> None:
    assert add_reserved_ports(reserved, ports, port_range) == wanted
