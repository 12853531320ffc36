"""The example of benchkit/services/README.md with servers of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "benchkit" / "services" / "README.md").read_text()
EXAMPLE = PAGE[PAGE.index("### Four servers, compared") : PAGE.index("### Versions of it")]


def block(language: str) -> str:
    """Return the block of the example in this language."""
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
