"""Servers that ask another one of this machine: they reach it, and traces say that threads wait for its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli.fixtures import CommandResult
from tests.support.waiting_servers.servers import answering, gunicorn

pytestmark = pytest.mark.usefixtures("loopback")

Cli = Callable[..., CommandResult]
CONSTANTS = {"benchkit.run.steps.profiles:ATTACH_S": 15.0, "benchkit.run.steps.profiles:AFTER_S": 5.0}
"""Times for bpftrace to compile its probes and for a load to end late, as other tests use the cores, too."""


def test_waits_for_another_server_are_named(cli: Cli, waiting_server: Path) -> None:
    short = ("--names", "fast,slow", "--blocks", 2, "--duration", 12, "--at", "off", "--trace")
    with answering(waiting_server, 10) as quick, answering(waiting_server, 40) as lazy:
        servers = (gunicorn(2, f"ask({port})") for port in (quick, lazy))
        cli("versus", *map(str, (*servers, *short)), constants=CONSTANTS)
    parts = cli("why", "--json").document()["components"]
    waits = {each["component"]: each for each in parts if each["level"] == "waiting"}
    assert {each for each in waits if "port" in each} == {f"answers of port {port}" for port in (quick, lazy)}
    assert waits[f"answers of port {lazy}"]["value"] > 0.03
    assert 0.005 < waits[f"answers of port {quick}"]["baseline_value"] < 0.03


def test_server_reaches_others_of_this_machine(cli: Cli, waiting_server: Path) -> None:
    """A lab has a network of its own: servers that need a database of this machine get the machine's."""
    with answering(waiting_server, 20) as port:
        found = cli("capacity", gunicorn(2, f"ask({port})"), "--p99", "1s", "--duration", "5", "--json")
    assert "Connection refused" in found.err
    assert "Its host now has the network of this machine, with its databases. It begins again." in found.err
    assert found.document()["load_curves"][0]["points"], found.err
