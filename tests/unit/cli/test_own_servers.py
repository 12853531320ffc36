"""The example of benchkit/services/README.md, as it stands there, with the servers that need no download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.cli.fixtures import CommandResult
from tests.support.cli.own_servers import EXAMPLE, block

Cli = Callable[..., CommandResult]
MAX_LINES = 20


def test_the_scenario_is_valid_and_short(cli: Cli, folder: Path) -> None:
    assert cli("validate", folder / "four.yaml").code == 0
    assert len(block("yaml").splitlines()) <= MAX_LINES
    assert "versus" in EXAMPLE
