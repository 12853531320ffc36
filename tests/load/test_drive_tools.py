"""The real load tools, called as benchkit calls them, against a small server on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchkit.load.generators.generator import plan_generators
from benchkit.load.tools.registry import TOOLS
from benchkit.load.tools.text import decode
from benchkit.load.tools.tool import ParsedOutput, ToolOutput
from benchkit.load.trial_result import read_generator
from benchkit.models.load import Load
from benchkit.services.go_build import build
from benchkit.services.service import GoSource
from tests.load.conftest import GOARCH, Server, place

pytestmark = pytest.mark.lab


def _run_generator(load: Load, url: str, folder: Path) -> ParsedOutput:
    """Run one generator as planned, with its rows piped to the reducer, and return its output."""
    tool = TOOLS[load.tool]
    if tool.go_program is None and shutil.which(tool.binary) is None:
        pytest.skip(f"{tool.binary} is not installed")
    here = place("here", folder=folder, cpus=(0,), nofile=1024, goos=sys.platform, goarch=GOARCH)
    (generator,) = plan_generators(load, url, [here])
    for name, text in generator.files.items():
        (folder / name).write_text(text)
    for program in generator.programs:
        assert isinstance(program.content, GoSource)
        source = program.content
        built = build(source.module, goos=source.goos, goarch=source.goarch, package=source.package)
        Path(program.path).symlink_to(built.path)
    with (folder / "stderr").open("wb") as stderr:
        if generator.reducer is None:
            stdout = subprocess.run(
                generator.argv, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, timeout=30, check=True
            ).stdout
            return read_generator(tool, load, ToolOutput(decode(stdout), (folder / "stderr").read_text()))
        reduce = [*generator.reducer, "-out", "reduced", "-rest", "stdout"]
        reducer = subprocess.Popen(reduce, cwd=folder, stdin=subprocess.PIPE)
        subprocess.run(generator.argv, cwd=folder, stdout=reducer.stdin, stderr=stderr, timeout=30, check=True)
    reducer.communicate(timeout=10)
    assert reducer.returncode == 0
    output = ToolOutput(
        (folder / "stdout").read_text(), (folder / "stderr").read_text(), (folder / "reduced").read_bytes()
    )
    return read_generator(tool, load, output)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_run_for_a_time_gives_a_complete_result(tool: str, server: Server, tmp_path: Path) -> None:
    output = _run_generator(Load(tool=tool, connections=3, duration_s=2), f"{server.url}slow", tmp_path)
    result, measured = output.result, output.measurement
    assert result.complete, result
    assert result.requests is not None
    assert 0 < result.requests < 250  # 3 connections with an answer every 30 ms make 200 requests in 2 s
    assert result.latency.mean_s is not None
    assert result.latency.mean_s > 0.02
    assert result.duration_s is not None
    in_flight = result.latency.mean_s * result.requests / result.duration_s
    assert in_flight == pytest.approx(3, rel=0.4), "Little's law, however slow this machine is"
    assert not result.failed
    assert not result.non_2xx
    assert measured is not None
    assert measured.complete
    lost = 75 if tool == "siege" else 0  # lines in the buffer of a user that is cancelled while it prints
    assert 0 <= result.requests - measured.histograms["raw"].total <= lost
    assert result.latency == measured.latency()
    assert result.latency.corrected is False
    assert result.latency.percentiles["50"] == pytest.approx(result.latency.mean_s, rel=0.5)


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if "requests" in tool.options])
def test_a_run_makes_its_count_of_requests(tool: str, server: Server, tmp_path: Path) -> None:
    rate = 50 if tool == "vegeta" else None
    output = _run_generator(Load(tool=tool, connections=4, requests=40, rate=rate), f"{server.url}slow", tmp_path)
    assert output.result.requests == 40
    assert output.measurement is not None
    assert output.measurement.histograms["raw"].total == 40


REQUESTS: dict[str, dict[str, Any]] = {
    "wrk": {"headers": {"X-Test": "a b"}},
    "ab": {"headers": {"X-Test": "a b"}, "method": "PUT", "requests": 8},
    "hey": {"headers": {"X-Test": "a b"}, "method": "PUT", "body": "k=v", "requests": 8},
    "siege": {"headers": {"X-Test": "a b"}, "method": "PUT", "body": "k=v", "requests": 8},
    "vegeta": {"headers": {"X-Test": "a b"}, "method": "PUT", "body": "k=v", "requests": 8, "rate": 20},
    "h2load": {"headers": {"X-Test": "a b"}, "method": "PUT", "body": "k=v", "requests": 8},
}


@pytest.mark.parametrize("tool", REQUESTS)
def test_method_headers_and_body_reach_the_server(tool: str, server: Server, tmp_path: Path) -> None:
    fields = {"duration_s": None if "requests" in REQUESTS[tool] else 1, **REQUESTS[tool]}
    _run_generator(Load(tool=tool, connections=2, **fields), f"{server.url}echo", tmp_path)
    assert server.stop() == {f"{fields.get('method', 'GET')} {fields.get('body', '')} a b"}


def test_ab_does_not_count_answers_of_varying_length_as_failed(server: Server, tmp_path: Path) -> None:
    result = _run_generator(Load(tool="ab", connections=2, requests=50), f"{server.url}vary", tmp_path).result
    assert (result.requests, result.failed, result.failed_length) == (50, 0, 0)


def test_siege_writes_nothing_into_the_home_of_its_user(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setitem(os.environ, "HOME", str(home))
    _run_generator(Load(tool="siege", connections=2, requests=4, histogram=False), f"{server.url}slow", folder)
    assert list(home.iterdir()) == []
