"""Servers that ask another one of this machine: they reach it, and traces say that threads wait for its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli.fixtures import CommandResult
from tests.support.waiting_servers.servers import answering, gunicorn

pytestmark = pytest.mark.usefixtures("loopback")

Cli = Callable[..., CommandResult]
ATTACH_S = 15.0
"""Time for bpftrace to compile its probes, which takes 1 to 2 s of a core that other tests use, too."""


def test_waits_for_another_server_are_named(cli: Cli, waiting_server: Path) -> None:
    short = ("--names", "fast,slow", "--blocks", 2, "--duration", 12, "--at", "off", "--trace")
    constants = {"benchkit.run.steps.profiles:ATTACH_S": ATTACH_S}
    with answering(waiting_server, 10) as quick, answering(waiting_server, 40) as lazy:
        servers = (gunicorn(2, f"ask({port})") for port in (quick, lazy))
        cli("versus", *map(str, (*servers, *short)), constants=constants)
    parts = cli("why", "--json").document()["components"]
    waits = {each["component"]: each for each in parts if each["level"] == "waiting"}
    assert {each for each in waits if "port" in each} == {f"answers of port {port}" for port in (quick, lazy)}
    assert waits[f"answers of port {lazy}"]["value"] > 0.039
    assert 0.009 < waits[f"answers of port {quick}"]["baseline_value"] < 0.039


def test_server_reaches_others_of_this_machine(cli: Cli, waiting_server: Path) -> None:
    """A lab has a network of its own: servers that need a database of this machine get the machine's."""
    with answering(waiting_server, 20) as port:
        found = cli("capacity", gunicorn(2, f"ask({port})"), "--p99", "1s", "--duration", "5", "--json")
    assert "Connection refused" in found.err
    assert "Its host now has the network of this machine, with its databases. It begins again." in found.err
    assert found.document()["load_curves"][0]["points"], found.err
