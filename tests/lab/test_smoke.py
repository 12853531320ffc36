"""The main job, once: a lab, the quickstart scenario at smoke scale, its comparison, and its report."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.cli.fixtures import Cli


def test_quickstart_is_run_compared_and_shown(cli: Cli, environment: dict[str, str]) -> None:
    environment["BENCHKIT_LAB"] = f"smoke-{os.getpid()}"
    up = cli("lab", "up", "--json")
    try:
        assert up.code == 0, up.err
        assert {host["name"]: host["answers"] for host in up.document()["hosts"]} == {"sut": True, "load": True}
        run = cli("run", "quickstart", "--scale", "smoke", "--json")
        assert run.code == 0, run.err
        summary = run.document()
        # Two load curves; then two blocks of two cells, each at full speed and at a held rate.
        assert (summary["status"], summary["trials"], summary["failures"]) == ("done", 10, {})
        compared = cli("compare", "latest", "--json").document()
        assert [(ratio["cell_id"], ratio["baseline"]) for ratio in compared["ratios"]] == [
            ("stack=nginx-go", "stack=go")
        ]
        report = Path(cli("report", "latest", "--json").document()["report"])
    finally:
        down = cli("lab", "down", "--force", "--json")
    assert down.document()["was_there"]
    page = report.read_text(encoding="utf-8")
    assert "nginx-go" in page
    assert "<script src" not in page, "the report is one file"
