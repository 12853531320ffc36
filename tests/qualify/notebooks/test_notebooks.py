"""Notebooks on the recorded store: they run from top to bottom and are reproducible."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT, TESTS

FOLDER = ROOT / "notebooks"
RECORDED = FOLDER / "recorded"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 5_000_000
MOST_PICTURE_BYTES = 150_000
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def cells(notebook: Path) -> list[dict[str, Any]]:
    """Return the cells in the file of a notebook."""
    found: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return found


def kept_pictures(cell: dict[str, Any]) -> Iterator[bytes]:
    """Yield the outputs that a code cell has in the file, which are pictures alone."""
    for output in cell["outputs"]:
        assert sorted(output["data"]) == ["image/png", "text/plain"]
        yield base64.b64decode(output["data"]["image/png"])


def python(*arguments: str | Path, **environment: str) -> None:
    """Run Python on the recorded store."""
    kept = {name: value for name, value in os.environ.items() if name != "BENCHKIT_RUN"}
    kept |= {"BENCHKIT_STORE": str(RECORDED), "PATH": PATH, **environment}
    ended = subprocess.run([sys.executable, *arguments], env=kept, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the page of every notebook, or with its error; all are executed in one kernel."""
    folder = tmp_path_factory.mktemp("pages")
    python((TESTS / "qualify/notebooks/in_one_kernel.py"), folder, *NOTEBOOKS)
    return folder


def test_there_are_notebooks_and_a_store_for_them() -> None:
    names = {notebook.stem for notebook in NOTEBOOKS}
    studies = {"nginx-vs-go", "static-files", "reuseport", "nethttp-vs-fasthttp", "node-vs-go", "go-module-proxy"}
    others = {"explore", "own-scenario", "scheduler-overhead", "server-history", "tls-cost", "http2"}
    others |= {"capacity", "left-open"}
    assert studies | others == names
    size = sum(file.stat().st_size for file in RECORDED.rglob("*") if file.is_file())
    assert 0 < size <= MOST_BYTES


def test_every_recorded_run_is_done() -> None:
    manifests = [json.loads(file.read_text(encoding="utf-8")) for file in RECORDED.glob("runs/*/manifest.json")]
    scenarios = sorted(each["scenario"]["name"] for each in manifests)
    others = {"explore", "own-scenario", "server-history", "left-open"}
    at_rates = {"efficiency", "overload", "latency-curves"}  # in the notebook `capacity`
    left_open = {"nginx-tuning", "nginx-roles", "blocking-handler", "go-releases", "node-releases"}
    left_open |= {"fasthttp-conditions", "fasthttp-unsaturated"}
    without = {"quickstart", "go-module-requests", "nginx-upstream-default"}
    expected = sorted({each.stem for each in NOTEBOOKS} - others | without | at_rates | left_open)
    assert scenarios == expected
    assert {each["status"] for each in manifests} == {"done"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebooks_have_one_small_picture_and_no_logic(notebook: Path) -> None:
    for cell in cells(notebook):
        if cell["cell_type"] == "code":
            assert [*kept_pictures(cell)] == [] or cell["id"] == "plain"
            assert cell["execution_count"] is None
            assert not re.search(r"^\s*(def|class|for|while|if) ", "".join(cell["source"]), re.MULTILINE)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_ends_with_what_was_found(notebook: Path) -> None:
    last = "".join(cells(notebook)[-1]["source"])
    if notebook.stem != "own-scenario":  # which only checks a file
        assert "benchkit.found" in last or ".sentences" in last


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebooks_run(notebook: Path, pages: Path) -> None:
    error = pages / f"{notebook.stem}.error"
    assert not error.exists(), error.read_text(encoding="utf-8")
    page = (pages / f"{notebook.stem}.html").read_text(encoding="utf-8")
    if "benchkit.figure(" in notebook.read_text(encoding="utf-8"):
        assert "<figcaption>" in page
        assert re.search(r'<figure><svg [^>]*role="img".*?<title>', page, re.DOTALL)
        assert 'src="data:image/svg+xml' not in page
        assert page.count("No description has been provided for this image") <= 1  # the figure to copy
    if "!benchkit validate" in notebook.read_text(encoding="utf-8"):  # a command of the shell that fails, fails no cell
        assert "2 cells, no fault found" in page


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_kept_picture_is_that_of_the_recorded_runs(notebook: Path, pages: Path) -> None:
    """`make notebooks` writes it again."""
    kept = [picture for cell in cells(notebook) if cell["cell_type"] == "code" for picture in kept_pictures(cell)]
    if notebook.stem == "own-scenario":  # which only checks a file
        assert kept == []
        return
    (picture,) = kept
    assert len(picture) <= MOST_PICTURE_BYTES
    assert picture == (pages / f"{notebook.stem}.png").read_bytes()


def test_pages_are_reproducible(pages: Path, tmp_path: Path) -> None:
    """Compare with `make figures`: in a new kernel, another time zone and locale."""
    notebook = FOLDER / "nginx-vs-go.ipynb"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BENCHKIT_", "MAKE"))}
    made = subprocess.run(
        ["make", "-C", ROOT, "figures", f"NOTEBOOKS={notebook.relative_to(ROOT)}", f"PAGES={tmp_path}"],
        env=kept | {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    one, other = ((folder / f"{notebook.stem}.html").read_bytes() for folder in (pages, tmp_path))
    assert hashlib.sha256(one).digest() == hashlib.sha256(other).digest()
