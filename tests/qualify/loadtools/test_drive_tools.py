"""The real load tools, called as benchkit calls them, against a small server on loopback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import ParsedOutput, Target
from benchkit.models.load import Load
from benchkit.plugins.traffic.cleaning import Cleaner
from benchkit.plugins.traffic.logs import Log, LoggedRequest
from benchkit.plugins.traffic.requests import traffic_of
from tests.support.loadtools.fixtures import PERCENTILES_ONLY, Server, run_generator


def _run_generator(load: Load, origin: str, folder: Path) -> ParsedOutput:
    return run_generator(load, Target(origin.removeprefix("http://")), folder)


SLOW_S = 0.03
"""Time of the server for an answer to `slow`."""


@pytest.mark.parametrize("tool", TOOLS)
def test_a_run_for_a_time_gives_a_complete_result(tool: str, server: Server, tmp_path: Path) -> None:
    output = _run_generator(Load(tool=tool, connections=3, duration_s=2, path="/slow"), server.origin, tmp_path)
    result, measured = output.result, output.measurement
    assert result.complete, result
    assert result.requests
    assert result.duration_s is not None
    assert result.requests <= 3 * (result.duration_s / SLOW_S + 1), "answers of 3 connections, one after the other"
    assert result.latency.mean_s is not None
    assert result.latency.mean_s > 0.02
    in_flight = result.latency.mean_s * result.requests / result.duration_s
    assert 1 < in_flight < 4.2, "Little's law, however slow this machine is"
    assert not result.failed
    assert not result.non_2xx
    assert (measured is None) == (tool in PERCENTILES_ONLY)
    if measured is None:
        return
    assert measured.complete
    # siege cancels its users: one that prints loses 75 lines of its buffer; one that has printed counts no answer.
    uncounted, lost = (3, 75) if tool == "siege" else (0, 0)
    assert -uncounted <= result.requests - measured.histograms["raw"].total <= lost
    assert result.latency == measured.latency()
    assert result.latency.corrected is False
    # A few late answers raise the mean alone. It is half of the median at least, as half of the times are that long.
    assert 0.02 < result.latency.percentiles["50"] <= 2 * result.latency.mean_s


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if "request_count" in tool.options])
def test_a_run_makes_its_count_of_requests(tool: str, server: Server, tmp_path: Path) -> None:
    load = Load(tool=tool, connections=4, request_count=40, path="/slow")
    output = _run_generator(load, server.origin, tmp_path)
    assert output.result.requests == 40
    assert (output.measurement is None) == (tool in PERCENTILES_ONLY)
    if output.measurement is not None:
        assert output.measurement.histograms["raw"].total == 40


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if tool.rate is not None])
def test_waiting_for_a_connection_is_in_the_times_of_open_loops_alone(
    tool: str, server: Server, tmp_path: Path
) -> None:
    """Send four times the requests that four connections can, each answered after 30 ms."""
    rate = TOOLS[tool].rate
    assert rate is not None
    load = Load(tool=tool, connections=4, duration_s=2, rate=500, path="/slow")
    result = _run_generator(load, server.origin, tmp_path).result
    assert (result.latency.percentiles["50"] > 0.15) == rate.is_open, result
    dropped = sum(note.code == "k6-dropped" for note in result.notes)
    assert dropped == (tool == "k6")


@pytest.mark.parametrize("tool", ["oha", "k6", "bombardier"])
def test_a_rate_that_can_be_held_is(tool: str, server: Server, tmp_path: Path) -> None:
    """Send a tenth of what the connections can; while the machine stands still, nothing is sent."""
    load = Load(tool=tool, connections=16, duration_s=2, rate=50, path="/slow")
    result = _run_generator(load, server.origin, tmp_path).result
    assert result.requests is not None
    assert result.duration_s is not None
    assert 10 <= result.requests <= 55 * result.duration_s


@pytest.mark.parametrize("tool", ["oha", "k6", "bombardier"])
def test_requests_without_an_answer_are_failures_and_no_answers(tool: str, server: Server, tmp_path: Path) -> None:
    # bombardier says nothing of a request that one of its five attempts answers: whole outages fail for every tool.
    load = Load(tool=tool, connections=4, duration_s=2, path="/outage")
    result = _run_generator(load, server.origin, tmp_path).result
    assert result.failed
    assert result.failed == sum(each or 0 for each in result.errors.model_dump().values())
    assert result.requests
    assert result.requests == sum(result.status.values()) or tool == "bombardier"


COUNTS: dict[str, dict[str, Any]] = {
    "wrk": {"duration_s": 1},
    **{name: {"request_count": 8} for name in ("ab", "hey", "siege", "h2load", "oha", "bombardier")},
    **{name: {"duration_s": 1, "rate": 8} for name in ("vegeta", "openloop", "k6")},
}


@pytest.mark.parametrize("tool", COUNTS)
@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"method": "PUT", "body": "k=v", "headers": {"content-length": "3"}}, "PUT k=v a b 3"),
        ({"method": "POST"}, "POST  a b 0"),
        ({"method": "POST", "headers": {"Content-Length": "0"}}, "POST  a b 0"),
    ],
)
def test_method_headers_and_body_reach_the_server_with_one_length(
    tool: str, fields: dict[str, Any], seen: str, server: Server, tmp_path: Path
) -> None:
    headers = {"X-Test": "a b", **fields.get("headers", {})}
    load = Load.model_validate(
        {"tool": tool, "connections": 2, "path": "/echo", **COUNTS[tool], **fields, "headers": headers}
    )
    _run_generator(load, server.origin, tmp_path)
    assert server.stop() == {seen}


ANY_BYTES = bytes(range(256)) * 3
"""A body that no text can be."""
MIXES: dict[str, list[dict[str, Any]]] = {
    "wrk": [
        {"path": "/count/a", "weight": 5, "headers": {"X-Test": 'a "\\b'}},
        {"path": "/count/b?q=1", "weight": 2.5, "method": "POST", "body": "k=v\n"},
        {"path": "/count/c", "weight": 2.5, "method": "PATCH", "body_file": "any"},
    ],
    "vegeta": [
        {"path": "/count/a", "weight": 5, "headers": {"X-Test": "a b"}},
        {"path": "/count/b?q=1", "weight": 3, "method": "POST", "body": "k=v\n"},
        {"path": "/count/c", "weight": 2, "method": "PATCH", "body_file": "any"},
    ],
    "openloop": [
        {"path": "/count/a", "weight": 5, "headers": {"X-Test": "a b"}},
        {"path": "/count/b?q=1", "weight": 3, "method": "POST", "body": "k=v\n"},
        {"path": "/count/c", "weight": 2, "method": "PATCH", "body_file": "any"},
    ],
    "h2load": [{"path": "/count/a", "weight": 3}, {"path": "/count/b?q=1"}],
    "oha": [{"path": "/count/c", "method": "PATCH", "body_file": "any", "headers": {"X-Test": "a b"}}],
    "k6": [
        {"path": "/count/a", "weight": 5, "headers": {"X-Test": 'a "\\b'}},
        {"path": "/count/b?q=1", "weight": 3, "method": "POST", "body": "k=v\n"},
        {"path": "/count/c", "weight": 2, "method": "PATCH", "body_file": "any"},
    ],
    "siege": [{"path": "/count/c", "method": "PATCH", "body_file": "text"}],
    "ab": [{"path": "/count/c", "method": "PATCH", "body_file": "any", "headers": {"X-Test": "a b"}}],
    "hey": [{"path": "/count/c", "method": "PATCH", "body_file": "any", "headers": {"X-Test": "a b"}}],
    "bombardier": [{"path": "/count/c", "method": "PATCH", "body_file": "any", "headers": {"X-Test": "a b"}}],
}
"""The most that each tool can send."""


@pytest.mark.parametrize("tool", MIXES)
def test_requests_arrive_as_they_are_stated_and_by_their_weights(tool: str, server: Server, tmp_path: Path) -> None:
    load = Load.model_validate({"tool": tool, "connections": 3, "duration_s": 2, "requests": MIXES[tool]})
    contents = {"any": ANY_BYTES, "text": ANY_BYTES.replace(b"\0", b"")}
    resolved = tuple(r.with_file_content(contents[r.body_file]) if r.body_file else r for r in load.requests)
    load = load.model_copy(update={"requests": resolved})
    result = _run_generator(load, server.origin, tmp_path).result
    assert not result.non_2xx
    counts = {tuple(seen[:-1]): seen[-1] for seen in map(json.loads, server.stop())}
    mix = load.request_mix
    expected = {(r.method, r.path, r.headers.get("X-Test"), (r.content or b"").hex()): r.weight for r in mix}
    assert counts.keys() == expected.keys()
    number, weights = sum(counts.values()), sum(expected.values())
    assert number > 100
    for request, weight in expected.items():
        assert binomtest(counts[request], number, weight / weights).pvalue > 1e-6, (request, counts)


def test_openloop_sends_traffic_at_the_instants_of_its_log(server: Server, tmp_path: Path) -> None:
    paths = ["/count/a", "/count/a", "/count/b/17", "/count/a"]
    instants = [1_770_000_000 + number / 200 for number in range(600)]
    logged = [LoggedRequest("GET", paths[number % 4], at_s) for number, at_s in enumerate(instants)]
    log = Log("combined", logged, is_in_whole_seconds=False)
    traffic = traffic_of(log, Cleaner(), "a.log", paths=20)
    load = Load(tool="openloop", connections=8, duration_s=2, traffic="a.json", pace="recorded", speed=1.5)
    output = _run_generator(load.with_traffic(traffic), server.origin, tmp_path)
    counts = {seen[1]: seen[-1] for seen in map(json.loads, server.stop())}
    assert counts == {"/count/a": 450, "/count/b/17": 150}
    assert output.result.requests == 600
    assert output.measurement is not None
    assert output.result.duration_s is not None
    assert output.result.latency.max_s is not None
    last_s = (instants[-1] - instants[0]) / 1.5
    # The run ends with the last answer, whose time counts from when its request was due.
    assert last_s < output.result.duration_s < last_s + output.result.latency.max_s + 0.5, "half as fast again"


def test_ab_does_not_count_answers_of_varying_length_as_failed(server: Server, tmp_path: Path) -> None:
    result = _run_generator(
        Load(tool="ab", connections=2, request_count=50, path="/vary"), server.origin, tmp_path
    ).result
    assert (result.requests, result.failed, result.failed_length) == (50, 0, 0)


def test_siege_writes_nothing_into_the_home_of_its_user(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    cache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("GOCACHE", cache)  # building the reducer without a cache takes half a minute
    monkeypatch.setenv("HOME", str(home))
    _run_generator(
        Load(tool="siege", connections=2, request_count=4, histogram=False, path="/slow"), server.origin, folder
    )
    # The reducer is built with this home as well: the compiler has its settings there.
    assert {entry.name for entry in home.iterdir()} <= {".cache", ".config", "go"}
