"""Any scenario's stack kept up without load, with its tuning, and put back when it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.hosts.sockets import Tcp
from benchkit.lab.lab import Lab
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lab

SOMAXCONN = "net.core.somaxconn"


def test_a_stack_stays_up_tuned_until_it_is_told_to_go(cli: Cli, inventory: Callable[..., Path], lab: Lab) -> None:
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].changes.read([SOMAXCONN])[SOMAXCONN].value
    command = ("quickstart", "-i", inventory(), "--json")
    made = cli("service", "up", *command, "--cell", "stack=nginx-go")
    assert made.code == 0, made.err
    try:
        services = made.document()["services"]
        assert [(each["name"], each["kept"], each["listens"]) for each in services] == [
            ("app", True, True),
            ("front", True, True),
        ]
        with connect_all(lab.inventory()) as hosts:  # another controller, any time later
            address, _, port = services[1]["listens_on"].partition(":")
            answer = hosts["load"].sockets.http(Tcp(address, int(port)), headers=[("Host", "x")])
            assert (answer.status, answer.body) == (200, b"Hello World\n")
            assert hosts["sut"].changes.read([SOMAXCONN])[SOMAXCONN].value == "65535" != before
        refused = cli("run", "quickstart", "-i", inventory(), "--scale", "smoke")
        assert refused.code == 1
        assert "in use: service quickstart of " in refused.err
    finally:
        assert cli("service", "down", *command).document()["hosts"] == ["sut"]
    with connect_all(lab.inventory()) as hosts:
        assert hosts["sut"].changes.read([SOMAXCONN])[SOMAXCONN].value == before
        records = [record.text for record in hosts["sut"].changes.state().records]
        # Servers that tests of SSH keep up for the session are another one's.
        assert [text for text in records if "(/usr/sbin/sshd)" not in text] == []
        assert b":8080 " not in hosts["sut"].processes.run(["ss", "-Hlnt"]).stdout


def test_a_lab_without_the_roles_gets_the_command_for_them(
    cli: Cli, environment: dict[str, str], inventory: Callable[..., Path], lab: Lab
) -> None:
    environment["BENCHKIT_LAB"] = lab.name
    result = cli("plan", "go-module-proxy").err
    assert "`benchkit lab down`, then `benchkit lab up --host dev=dev --host proxy=proxy --host vcs=vcs" in result
    refused = cli("plan", "go-module-proxy", "-i", inventory())
    assert refused.code == 2
    assert "give a host `roles: [dev]`" in refused.err
