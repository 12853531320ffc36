"""The example of benchkit/services/README.md, as it stands there, with the servers that need no download."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli.fixtures import CommandResult
from tests.support.paths import ROOT

Cli = Callable[..., CommandResult]
PAGE = (ROOT / "benchkit" / "services" / "README.md").read_text()
EXAMPLE = PAGE[PAGE.index("### Four servers, compared") : PAGE.index("### Versions of it")]
MAX_LINES = 20


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", EXAMPLE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with the files of the example."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("Hello World\n")
    names = {"four.yaml": "yaml", "app.py": "python", "server.js": "js", "nginx.conf.j2": "nginx"}
    for name, language in names.items():
        (tmp_path / name).write_text(block(language))
    return tmp_path


def test_the_scenario_is_valid_and_short(cli: Cli, folder: Path) -> None:
    assert cli("validate", folder / "four.yaml").code == 0
    assert len(block("yaml").splitlines()) <= MAX_LINES
    assert "versus" in EXAMPLE
