"""What the threads of a server wait for, from traces: the answers of another server are told from requests to come."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cli.fixtures import CommandResult
from tests.support.waiting_servers.servers import gunicorn

Cli = Callable[..., CommandResult]
ATTACH_S = 15.0
"""Time for bpftrace to compile its probes, which takes 1 to 2 s of a core that other tests use, too."""


@pytest.fixture
def upstream(waiting_server: Path) -> Iterator[int]:
    """The port of a server of this machine that answers after 20 ms."""
    port = 18571
    with subprocess.Popen([waiting_server, "--port", str(port), "sleep", "20"]) as running:
        try:
            yield port
        finally:
            running.terminate()


def test_wait_for_another_server_is_named(cli: Cli, upstream: int) -> None:
    commands = gunicorn(2, "wait(5)"), gunicorn(2, f"ask({upstream})")
    short = ("--connections", 4, "--blocks", 2, "--duration", 12, "--at", "off", "--trace")
    constants = {"benchkit.run.steps.profiles:ATTACH_S": ATTACH_S}
    done = cli("versus", *map(str, (*commands, "--names", "sleeps,asks", *short)), constants=constants)
    assert re.search(rf"threads of asks wait [\d.]+ ms more for answers of port {upstream}", done.out), done.out + done.err
    parts = cli("why", "--json").document()["components"]
    waits = {each["component"]: each for each in parts if each["level"] == "waiting"}
    assert waits["timers"]["baseline_value"] > 0.004 > waits["timers"]["value"]
    asked = waits[f"answers of port {upstream}"]
    assert asked["value"] > 0.019 > asked["baseline_value"]
