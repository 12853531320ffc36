"""Settings of the go command: written by the real one, restored however the agent ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.errors import HostError, InputError
from benchkit.hosts.agent_link import AgentLink, RefusedError
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import HostSpec
from benchkit.plugins.go_modules.developer import GoSettings
from benchkit.services.go_build import find_go

Launch = Callable[..., AgentLink]
VALUES = {"GOPROXY": "https://10.0.0.1:8443", "GONOSUMDB": "mycompany.com/go"}


@pytest.fixture
def go() -> str:
    """The go command of this machine."""
    try:
        return find_go()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The go command's settings file in these tests."""
    return tmp_path / "config" / "env"


@pytest.fixture
def agent(launch: Launch, file: Path) -> AgentLink:
    """An agent whose go command has its settings in this file."""
    return launch(prefix=["env", f"GOENV={file}"])


def write(agent: AgentLink, go: str, values: dict[str, str]) -> Host:
    host = Host(HostSpec(name="here", address="127.0.0.1", roles=()), agent)
    GoSettings(go, values).apply(host)
    return host


def test_settings_are_made_and_put_back_line_by_line(agent: AgentLink, go: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("GONOSUMDB=other.example\nGOFLAGS=-v\n")
    host = write(agent, go, VALUES)
    assert file.read_text().split() == ["GOFLAGS=-v", "GONOSUMDB=mycompany.com/go", "GOPROXY=https://10.0.0.1:8443"]
    file.write_text(file.read_text() + "GOTOOLCHAIN=local\n")  # somebody else's, made meanwhile
    assert [record.text for record in host.changes.state().records] == [f"settings of {go}"] * 2
    assert not GoSettings(go, VALUES).is_applied(host), "by this connection, not by another one"
    assert agent.close(60) == []
    assert file.read_text().split() == ["GOFLAGS=-v", "GONOSUMDB=other.example", "GOTOOLCHAIN=local"]


def test_a_file_that_did_not_exist_is_removed(agent: AgentLink, go: str, file: Path) -> None:
    write(agent, go, VALUES)
    assert file.exists()
    assert agent.close(60) == []
    assert not file.exists()


def test_settings_of_others_in_a_file_that_did_not_exist_stay(agent: AgentLink, go: str, file: Path) -> None:
    write(agent, go, VALUES)
    file.write_text(file.read_text() + "GOTOOLCHAIN=local\n")
    assert agent.close(60) == []
    assert file.read_text() == "GOTOOLCHAIN=local\n"


def test_a_file_that_somebody_has_removed_needs_no_restoring(agent: AgentLink, go: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("GOFLAGS=-v\n")
    write(agent, go, VALUES)
    file.unlink()
    assert agent.close(60) == []


def test_the_watchdog_restores_the_settings_of_a_killed_agent(agent: AgentLink, go: str, file: Path) -> None:
    write(agent, go, VALUES)
    assert file.read_text()
    os.kill(agent.hello().pid, signal.SIGKILL)
    deadline = time.monotonic() + 50
    while file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_settings_that_could_not_be_written_leave_nothing_to_restore(agent: AgentLink, go: str, file: Path) -> None:
    with pytest.raises(HostError, match="GONONSENSE"):
        write(agent, go, {"GONONSENSE": "x"})
    assert agent.close(60) == []
    assert not file.exists()


def test_a_go_command_without_settings_says_so(launch: Launch, go: str) -> None:
    agent = launch(prefix=["env", "GOENV=off"])
    with pytest.raises(HostError, match="no file for its settings"):
        write(agent, go, VALUES)


def test_what_is_no_go_command_says_so(agent: AgentLink) -> None:
    with pytest.raises(RefusedError, match="cannot start /nonexistent/go"):
        write(agent, "/nonexistent/go", VALUES)
