"""Plugins: a real package with one of each kind, installed and run, and packages whose plugins cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchkit.lab.lab import Lab
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import Tool
from benchkit.registry import Registry
from tests.support.paths import TESTS

EXAMPLE = TESTS / "fixtures/plugin"
SCENARIO = """
name: plugins
title: A server and a load tool of another package
question: Does everything of another package work?
stacks: {python: {entry: app, services: {app: {backend: python-http, listen: 8080, text: hi}}}}
load:
  tool: pyload
  connections: 1
  duration_s: 1
  requests: [{method: POST, path: /a, body: k=v, expect: {status: 200, contains: hi}}]
blocks: 2
"""


def _registry() -> Registry[Tool]:
    """Return a registry of tools that has not looked for plugins yet."""
    return Registry("benchkit.load_tools", {"wrk": TOOLS["wrk"]}, Tool, lambda tool: tool.name)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder on the path with the metadata of a package whose plugins cannot be used, and of a good one."""
    (tmp_path / "stray_code.py").write_text(
        "from dataclasses import replace\nfrom benchkit.loadtools.tools.wrk import TOOL as WRK\n"
        "OHA = replace(WRK, name='oha')\nNUMBER = 1\n"
    )
    (tmp_path / "failing_code.py").write_text("raise RuntimeError('no such luck')\n")
    for package, lines in {
        "stray": [
            "absent = nowhere_at_all:TOOL",
            "failing = failing_code:TOOL",
            "number = stray_code:NUMBER",
            "other = stray_code:OHA",
            "wrk = stray_code:WRK",
            "oha = stray_code:OHA",
        ],
        "second": ["oha = stray_code:OHA"],
    }.items():
        info = tmp_path / f"{package}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text("\n".join(["[benchkit.load_tools]", *lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stray_code", raising=False)
    return tmp_path


@pytest.mark.usefixtures("packages")
def test_a_plugin_that_cannot_be_used_is_named_with_its_error_and_the_others_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = _registry()
    assert list(registry) == ["wrk", "oha"]
    errors = {plugin.name: plugin.error for plugin in registry.plugins if plugin.name != "oha"}
    assert errors == {
        "absent": "ModuleNotFoundError: No module named 'nowhere_at_all'",
        "failing": "RuntimeError: no such luck",
        "number": "stray_code:NUMBER is a int, not a Tool",
        "other": "stray_code:OHA is named 'oha'",
        "wrk": "benchkit already has an object of this name",
    }
    both = {plugin.package: plugin.error for plugin in registry.plugins if plugin.name == "oha"}
    used = next(package for package, error in both.items() if error is None)
    assert {error for error in both.values() if error} == {f"{used} already has an object of this name"}
    assert registry["wrk"] is TOOLS["wrk"]
    assert "plugin failing of stray 0.1 (benchkit.load_tools) cannot be used: RuntimeError: no such luck" in caplog.text


@pytest.mark.usefixtures("packages")
def test_an_unknown_name_is_explained_by_the_broken_plugin_that_has_it() -> None:
    registry = _registry()
    assert registry.why_unknown("failing") == (
        "the plugin stray 0.1 (failing_code:TOOL) cannot be used: RuntimeError: no such luck"
    )
    assert registry.why_unknown("ohaa") == "did you mean 'oha'? allowed: wrk, oha"


def test_a_broken_backend_is_named_for_the_scenario_that_asks_for_it(tmp_path: Path) -> None:
    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[benchkit.backends]\npython-http = broken_code:PYTHON_HTTP\n")
    (tmp_path / "broken_code.py").write_text("import no_such_library\n")
    (tmp_path / "plugins.yaml").write_text(SCENARIO.replace("pyload", "wrk"))
    done = _benchkit("validate", tmp_path / "plugins.yaml", plugins=tmp_path, store=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "no backend 'python-http'; the plugin broken 2.0 (broken_code:PYTHON_HTTP) cannot be used: " in done.stderr
    assert "ModuleNotFoundError: No module named 'no_such_library'" in done.stderr
    shipped = _benchkit("validate", "quickstart", plugins=tmp_path, store=tmp_path)
    assert shipped.returncode == 0, shipped.stderr


@pytest.mark.usefixtures("packages")
def test_plugins_are_loaded_only_for_names_that_are_not_shipped() -> None:
    registry = _registry()
    assert registry["wrk"].name == "wrk"
    assert "stray_code" not in sys.modules
    assert "jmeter" not in registry
    assert "stray_code" in sys.modules


def _benchkit(*arguments: str | Path, plugins: Path, store: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(plugins), "BENCHKIT_STORE": str(store)}
    program = [Path(sys.executable).with_name("benchkit"), *arguments]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_example_package_serves_loads_checks_and_draws(lab: Lab, tmp_path: Path) -> None:
    plugins, store, scenario = tmp_path / "installed", tmp_path / "store", tmp_path / "plugins.yaml"
    install = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*install, "--target", plugins, EXAMPLE], check=True, timeout=60)
    scenario.write_text(SCENARIO)

    listed = _benchkit("plugins", "--json", plugins=plugins, store=store)
    assert {(each["group"], each["name"]) for each in json.loads(listed.stdout)} == {
        ("benchkit.backends", "python-http"),
        ("benchkit.load_tools", "pyload"),
        ("benchkit.output_formats", "pyload"),
        ("benchkit.checks", "one-connection"),
        ("benchkit.diagnoses", "many-threads"),
        ("benchkit.figures", "requests"),
    }
    assert {(each["package"], each["version"], each["error"]) for each in json.loads(listed.stdout)} == {
        ("benchkit-example", "1.2.3", None)
    }
    ran = _benchkit("run", scenario, "--lab", lab.name, "--json", plugins=plugins, store=store)
    assert ran.returncode == 0, ran.stderr
    run_id = json.loads(ran.stdout)["run_id"]
    trials = _benchkit("results", "trials", run_id, "--json", plugins=plugins, store=store)
    for row in json.loads(trials.stdout):
        assert row["tool"] == "pyload"
        assert row["requests"] > 0
        assert row["verdict"] in {"suspect", "invalid"}
    report = _benchkit("report", run_id, "-o", tmp_path / "report", plugins=plugins, store=store)
    assert report.returncode == 0, report.stderr
    assert not report.stderr
    page = (tmp_path / "report" / "report.html").read_text()
    assert "one-connection" in page
    assert (tmp_path / "report" / "figures" / "requests.svg").is_file()
