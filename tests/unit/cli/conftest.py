from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.fixtures import cli_in_this_process, environment
from tests.support.cli.history import stored


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which commands are started."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
