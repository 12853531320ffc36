"""Runs of in-house Go modules on a lab of four hosts: real git, sshd, nginx, go command and module proxies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import benchkit
from tests.support.cli.fixtures import Cli
from tests.support.cli.go_modules.hosts import find_secrets
from tests.support.needs import separate_hosts

pytestmark = separate_hosts


def test_the_scenario_verifies_the_stack_and_measures_every_cell(
    cli: Cli, hosts_file: Path, tmp_path: Path, state: Path
) -> None:
    result = cli("run", "go-module-proxy", "-i", hosts_file, "--scale", "smoke", "--json")
    assert result.code == 0, result.err
    summary = result.document()
    assert (summary["status"], summary["failures"]) == ("done", {})
    frame = benchkit.load("trials", store=tmp_path / "store")
    assert len(frame) == len(summary["cells"]) >= 3
    assert (frame["requests"] == 4).all()
    assert (frame[["errors_connect", "errors_read", "errors_write", "non_2xx"]] == 0).all().all()
    raw = next((tmp_path / "store" / "runs").iterdir()) / "raw"
    trials = [json.loads((folder / "trial.json").read_text()) for folder in raw.iterdir()]
    # Checksums are the same directly and through the proxy, in every trial.
    assert {(trial["probe"]["status"], trial["probe"]["body_sha256"]) for trial in trials} == {
        (200, trials[0]["probe"]["body_sha256"])
    }
    logs = [(folder / "developer.dev.log").read_text() for folder in raw.iterdir()]
    for log in logs:
        assert "mycompany.com/go/module1 v1.99.0\n" in log
        assert re.search(r"mycompany.com/go/module2 v1\.0\.1-0\.[0-9]{14}-[0-9a-f]{12}\n", log)
        assert "mycompany.com/go/module2/v2 v2.0.0\n" in log
        assert "mycompany.com/go/module2/sub v0.1.0\n" in log
        assert "github.com/beorn7/perks v1.0.1\n" in log
        assert "built and run in " in log
    assert cli("report", "latest").code == 0
    assert find_secrets(result.out + result.err, state) == []
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert {"journal.jsonl", "manifest.json", "report.html", "developer.dev.log"} <= {path.name for path in files}
    assert {path: found for path in files if (found := find_secrets(path.read_bytes().decode("latin-1"), state))} == {}


def test_proxy_and_files_send_the_same_response(cli: Cli, hosts_file: Path, tmp_path: Path) -> None:
    one = "factors.request=[mycompany.com/go/module1/@v/v1.99.0.zip]"
    settings = ("--set", "factors.proxy=[goproxy]", "--set", one, "--set", "baseline=null")
    result = cli("run", "go-module-requests", "-i", hosts_file, "--scale", "smoke", *settings, "--json")
    assert result.code == 0, result.err
    frame = benchkit.load("trials", store=tmp_path / "store")
    assert sorted(frame["factor_files"]) == ["false", "true"]
    assert (frame[["errors_connect", "errors_read", "errors_write", "non_2xx"]] == 0).all().all()
    raw = next((tmp_path / "store" / "runs").iterdir()) / "raw"
    probes = [json.loads((folder / "trial.json").read_text())["probe"] for folder in raw.iterdir()]
    assert len({probe["body_sha256"] for probe in probes}) == 1
    disk_usage = benchkit.load("telemetry", store=tmp_path / "store").query("metric == 'folder_bytes'")
    cache = disk_usage[(disk_usage["service"] == "proxy") & (disk_usage["instance"] == "cache")]
    assert len(cache) == 2
    assert (cache["value"] > 20_000).all()  # a zip, and the clone of a repository with a hundred versions
