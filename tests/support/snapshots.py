"""Texts that benchkit prints, each compared with a file.

`make snapshots` rewrites the files, and git shows what changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import TESTS

FOLDER = TESTS / "fixtures" / "snapshots"
IS_REWRITING = "BENCHKIT_REWRITE_SNAPSHOTS" in os.environ

Snapshot = Callable[[str], None]


@pytest.fixture
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshot:
    """Compare a text with the file of this test, without blanks at ends of lines; the test's folder is `TMP` there."""
    file = FOLDER / request.path.relative_to(TESTS).with_suffix("") / f"{request.node.name}.txt"

    def compare(text: str) -> None:
        lines = text.replace(str(tmp_path), "TMP").rstrip().splitlines()
        shown = "".join(f"{line.rstrip()}\n" for line in lines)
        if IS_REWRITING:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(shown, encoding="utf-8")
        assert file.is_file(), f"no {file.relative_to(TESTS)}: `make snapshots` writes it"
        assert shown == file.read_text(encoding="utf-8"), f"{file.relative_to(TESTS)} differs: see `make snapshots`"

    return compare
