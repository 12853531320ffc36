"""The main job, once: a lab, the quickstart scenario at smoke scale, its comparison, and its report in a browser."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.browser import Browser
from tests.support.cli.fixtures import Cli


def test_quickstart_is_run_compared_and_shown(cli: Cli, environment: dict[str, str], browser: Browser) -> None:
    environment["BENCHKIT_LAB"] = f"smoke-{os.getpid()}"
    up = cli("lab", "up", "--json")
    try:
        assert up.code == 0, up.err
        assert {host["name"]: host["answers"] for host in up.document()["hosts"]} == {"sut": True, "load": True}
        run = cli("run", "quickstart", "--scale", "smoke", "--json")
        assert run.code == 0, run.err
        summary = run.document()
        assert (summary["status"], summary["trials"], summary["failures"]) == ("done", 4, {})
        compared = cli("compare", "latest", "--json").document()
        assert [(ratio["cell_id"], ratio["baseline"]) for ratio in compared["ratios"]] == [
            ("stack=nginx-go", "stack=go")
        ]
        report = Path(cli("report", "latest", "--json").document()["report"])
    finally:
        down = cli("lab", "down", "--force", "--json")
    assert down.document()["was_there"]
    browser.open(report)
    assert browser.run("[...document.images].every((image) => image.naturalWidth > 0)")
    assert "nginx-go" in browser.run("document.body.innerText")
    errors = [event["params"]["entry"] for event in browser.happened("Log.entryAdded")]
    assert [entry["text"] for entry in errors if entry["level"] == "error"] == []
