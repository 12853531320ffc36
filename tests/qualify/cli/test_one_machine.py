"""A lab of a user without root, whose hosts are one machine: the commands of the README for in-house Go modules."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.support.cli.fixtures import Cli
from tests.support.needs import one_machine

pytestmark = one_machine

FOUR_HOSTS = ("dev=dev,load", "proxy=proxy", "vcs=vcs", "upstream=upstream")


@pytest.fixture
def environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Environment with a lab of its own and a folder for secrets."""
    return environment | {"BENCHKIT_LAB": f"pytest-{os.getpid()}-one", "XDG_STATE_HOME": str(tmp_path / "state")}


def test_go_modules_are_served_by_the_lab_that_the_error_names(cli: Cli) -> None:
    try:
        assert cli("lab", "up", *(word for host in FOUR_HOSTS for word in ("--host", host))).code == 0
        refused = cli("service", "up", "go-module-proxy")
        assert refused.code == 2
        assert "dev and proxy are one machine" in refused.err
        commands = [shlex.split(line)[1:] for line in re.findall(r"`(benchkit .*?)`", refused.err)]
        assert commands == [["lab", "down"], ["lab", "up", "--host", "all=dev,load,proxy,vcs,upstream"]]
        assert [cli(*command).code for command in commands] == [0, 0]
        assert cli("service", "up", "go-module-proxy").code == 0
        assert cli("service", "status", "go-module-proxy").code == 0
        down = cli("service", "down", "go-module-proxy", "--json")
        assert down.document()["hosts"] == ["all"]
    finally:
        assert cli("lab", "down", "--force").code == 0
