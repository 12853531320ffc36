"""The notebooks run from top to bottom on the store that ships with them, and come out the same every time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
RECORDED = FOLDER / "recorded"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 5_000_000
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, as its file has them."""
    found: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return found


def render(notebook: Path, folder: Path) -> str:
    """Execute a notebook on the recorded store, and give it as HTML. A cell that fails, fails the test."""
    environment = {**os.environ, "BENCHKIT_STORE": str(RECORDED), "PATH": PATH}
    environment.pop("BENCHKIT_RUN", None)
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--execute",
        "--to",
        "html",
        "--output-dir",
        str(folder),
        str(notebook),
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return (folder / f"{notebook.stem}.html").read_text(encoding="utf-8")


def test_there_are_notebooks_and_a_store_for_them() -> None:
    names = {notebook.stem for notebook in NOTEBOOKS}
    studies = {"nginx-vs-go", "static-files", "reuseport", "nethttp-vs-fasthttp", "node-vs-go", "go-module-proxy"}
    assert {"explore", "own-scenario", "scheduler-overhead", *studies} == names
    size = sum(file.stat().st_size for file in RECORDED.rglob("*") if file.is_file())
    assert 0 < size <= MOST_BYTES


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_they_are_kept_without_outputs_and_hold_no_logic(notebook: Path) -> None:
    for cell in cells(notebook):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
            assert not re.search(r"^\s*(def|class|for|while|if) ", "".join(cell["source"]), re.MULTILINE)


@pytest.mark.system
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_they_run(notebook: Path, tmp_path: Path) -> None:
    page = render(notebook, tmp_path)
    if "benchkit.figure(" in notebook.read_text(encoding="utf-8"):
        assert "<figcaption>" in page
        assert "No description has been provided for this image" not in page


@pytest.mark.system
def test_figures_come_out_the_same_every_time(tmp_path: Path) -> None:
    notebook = FOLDER / "nginx-vs-go.ipynb"
    first, second = (render(notebook, tmp_path / name) for name in ("one", "two"))
    assert hashlib.sha256(first.encode()).digest() == hashlib.sha256(second.encode()).digest()
