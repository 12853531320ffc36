"""`benchkit history`, `audit`, the exports of histories and the site, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.cli.fixtures import CommandResult
from tests.support.cli.history import RATIOS

Cli = Callable[..., CommandResult]


def test_a_history_is_exported_and_written_as_a_site(cli: Cli, stored: Path, tmp_path: Path) -> None:
    otava = cli("results", "export", "latest", "--format", "otava").out.splitlines()
    assert len(otava) == 1 + len(RATIOS)
    assert otava[0].startswith("time,run,commit,rps_stack_new_relative_to_stack_old")
    assert "rps-ratio" in cli("results", "export", "latest", "--format", "bmf").document()["small/stack=new"]
    assert cli("results", "export", "latest", "--format", "openmetrics").out.endswith("# EOF\n")
    assert {each["run_id"] for each in cli("results", "export", "r03", "--format", "conbench").document()} == {"r03"}
    site = cli("report", "-o", tmp_path / "site", "--json").document()
    assert (site["pages"], site["written"]) == (2, 2)
    assert Path(site["site"]).is_file()
    assert not (stored / "site").exists()
