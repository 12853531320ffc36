from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError
from benchkit.report.report_files import write_report
from benchkit.report.stored_run import StoredRun
from tests.support.paths import TESTS

NAMES = ("latency", "ratios", "rps")
FILES = [*(f"figures/{name}.{kind}" for name in NAMES for kind in ("png", "svg")), "report.html"]

DRAW = """
import importlib.util, pathlib, sys
from benchkit.report.report_files import write_report
spec = importlib.util.spec_from_file_location("synthetic", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
write_report(module.synthetic_run(), pathlib.Path(sys.argv[2]))
"""


def hashes(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_report_consists_of_a_page_and_its_figures(run: StoredRun, tmp_path: Path) -> None:
    assert write_report(run, tmp_path / "report") == tmp_path / "report" / "report.html"
    assert list(hashes(tmp_path / "report")) == FILES


def test_a_folder_that_is_gone_is_not_created_again(run: StoredRun, tmp_path: Path) -> None:
    with pytest.raises(BenchkitError, match="cannot write the report"):
        write_report(run, tmp_path / "removed" / "report")
    assert not [*tmp_path.iterdir()]


def test_files_are_reproducible_under_other_settings(run: StoredRun, tmp_path: Path) -> None:
    write_report(run, tmp_path / "here")
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "matplotlibrc").write_text("font.size: 20\nsvg.fonttype: none\nsavefig.dpi: 30\naxes.grid: False\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "MPLCONFIGDIR": str(settings),
        "PYTHONHASHSEED": "77",
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0",
    }
    synthetic = TESTS / "support/report/fixtures.py"
    subprocess.run([sys.executable, "-c", DRAW, synthetic, tmp_path / "there"], env=environment, check=True)
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")


def test_a_failed_write_leaves_no_partial_file(run: StoredRun, tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(BenchkitError, match=r"report\.html"):
        write_report(run, tmp_path)
    assert list(hashes(tmp_path)) == FILES[:-1]
