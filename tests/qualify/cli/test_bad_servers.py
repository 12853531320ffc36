"""Servers of users with the usual faults, in one run from the command line: each has a clear message, nothing stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ruamel.yaml import YAML

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]
FAULTY = TESTS / "support" / "services" / "faulty_server.py"
PORT = 8791
MESSAGES = {
    "dies": ("exit code 3", "database.example: no such host"),
    "other-port": (f":{PORT + 1} instead", "{host} and {port} in its command line"),
    "answers-500": ("to GET /: status 500", "no such table: users"),
}
"""Parts of the message about each server that cannot be measured; services/test_command_on_hosts.py has more faults."""
READY_S = 10
"""Time that is over whole for a server on another port; Python starts by then, on a busy machine too."""
ENDING = ("leaves-children", "ignores-term")
"""Servers that serve, and do not end when they are told to."""


def stack(fault: str) -> Mapping[str, object]:
    app = {
        "backend": "command",
        "listen": PORT,
        "run": f"python3 {FAULTY.name} {fault} {{host}} {{port}}",
        "files": [str(FAULTY)],
        "ready": {"within_s": READY_S},
        **({"stop": {"within_s": 0.3}} if fault == "ignores-term" else {}),
    }
    return {"entry": "app", "services": {"app": app}}


def test_each_bad_server_has_a_clear_message_and_leaves_nothing_behind(
    cli: Cli, lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    scenario = tmp_path / "bad.yaml"
    faults = [*MESSAGES, *ENDING]
    fields = {
        "name": "bad",
        "title": "Servers with faults",
        "question": "What is said of each?",
        "factors": {"stack": faults},
        "stacks": {fault: stack(fault) for fault in faults},
        "load": {"tool": "wrk", "connections": 2, "duration_s": 1},
        "blocks": 1,
    }
    with scenario.open("w") as file:
        YAML().dump(fields, file)
    done = cli("run", scenario, "--lab", lab.name, "--json")
    assert done.code == 1, done.err
    document = done.document()
    failures = document["failures"]
    for fault, parts in MESSAGES.items():
        (why,) = [why for why in failures.values() if parts[0] in why]
        assert all(part in why for part in parts), fault
    assert len(failures) == len(MESSAGES)
    notes = benchkit.load("notes", store=environment["BENCHKIT_STORE"], run=document["run_id"])
    killed = list(notes["message"][notes["code"] == "service-killed"])
    assert len(killed) == 1, "the one that ignores SIGTERM; children that a server leaves behind go with its group"
    assert all("app did not end within 0.3 s of SIGTERM, and was killed: python3 (" in each for each in killed)
    with connect_all(lab.inventory()) as hosts:
        hosts["sut"].sockets.require_free([PORT, PORT + 1])
        assert not hosts["sut"].processes.run(["pgrep", "-f", FAULTY.name]).ok
