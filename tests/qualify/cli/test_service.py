"""`benchkit service`: a scenario's stack that stays up on tuned hosts, which are restored by `down`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.agent.operations import SocketAddress
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.files import shipped
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from tests.support.cli.fixtures import Cli
from tests.support.needs import separate_hosts

pytestmark = separate_hosts

SOMAXCONN = "net.core.somaxconn"


def test_a_stack_stays_up_with_tuned_hosts_until_down(cli: Cli, inventory: Callable[..., Path], lab: Lab) -> None:
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].call(Sysctls.read, [SOMAXCONN])[SOMAXCONN].value
    command = ("quickstart", "-i", inventory(), "--json")
    result = cli("service", "up", *command, "--cell", "stack=nginx-go")
    assert result.code == 0, result.err
    assert "the stack of cell stack=nginx-go; --cell chooses another, such as stack=go\n" in result.err
    try:
        services = result.document()["services"]
        assert [(each["name"], each["kept"], each["listens"]) for each in services] == [
            ("app", True, True),
            ("front", True, True),
        ]
        with connect_all(lab.inventory()) as hosts:  # a controller that connects later
            address, _, port = services[1]["listens_on"].partition(":")
            answer = hosts["load"].sockets.get_http(SocketAddress("tcp", address, int(port)))
            assert (answer.status, answer.body) == (200, b"Hello World\n")
            assert hosts["sut"].call(Sysctls.read, [SOMAXCONN])[SOMAXCONN].value == "65535" != before
        error = cli("run", "quickstart", "-i", inventory(), "--scale", "smoke")
        assert error.code == 1
        assert "in use: service quickstart of " in error.err
    finally:
        assert cli("service", "down", *command).document()["hosts"] == ["sut"]
    with connect_all(lab.inventory()) as hosts:
        assert hosts["sut"].call(Sysctls.read, [SOMAXCONN])[SOMAXCONN].value == before
        records = [record.text for record in hosts["sut"].call(Undo.traces).records]
        # Tests of SSH keep servers of their own up for the whole session.
        assert [text for text in records if "(/usr/sbin/sshd)" not in text] == []
        assert b":8080 " not in hosts["sut"].processes.run(["ss", "-Hlnt"]).stdout


def test_a_stack_goes_down_though_its_scenario_has_become_invalid(
    cli: Cli, inventory: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "edited.yaml"
    path.write_text((shipped("scenarios") / "quickstart.yaml").read_text().replace("name: quickstart", "name: edited"))
    result = cli("service", "up", path, "-i", inventory(), "--cell", "stack=go", "--json")
    assert result.code == 0, result.err
    path.write_text(path.read_text().replace("connections: 64", "conections: 64"))
    assert cli("validate", path).code == 2
    assert "conections" in cli("service", "status", path, "-i", inventory()).err
    assert cli("service", "down", path, "-i", inventory(), "--json").document()["hosts"] == ["sut"]
    assert cli("service", "down", path, "-i", inventory(), "--json").document()["hosts"] == []
