"""What limits servers that wait, and how fast they answer at a held rate: kinds, slots, texts and fields, no rates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import benchkit
from benchkit.judge.load_curve import MOST_UNSURE
from tests.support.cli.fixtures import CommandResult
from tests.support.waiting_servers.servers import gunicorn, kit

Cli = Callable[..., CommandResult]
POINT = {"connections", "rps", "latency_p50_s", "latency_p99_s", "server_cpu", "generator_cpu", "refused", "failed"}
SHORT = ("--duration", 12)
CURVES_ALONE = ("--at", "off", "--blocks", 2)
"""Options of comparisons of which only the load curves are judged."""


def curves(cli: Cli, *arguments: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the load curves of a comparison, and its document."""
    done = cli("versus", *map(str, (*arguments, *SHORT, "--json", "-q")))
    assert done.out, done.err
    document = done.document()
    return document["load_curves"], document


def require_slots(curve: dict[str, Any], true: int) -> None:
    """Check that a curve names slots, near this number; where points are too noisy, it must say so.

    Up to two slots, the time of an answer without load is that of one connection, whose mean a pause can lengthen.
    """
    limit, first = curve["limit"], curve["points"][0]
    if limit["kind"] == "unknown":
        assert "too noisy" in limit["sentence"], limit
        return
    assert limit["kind"] == "slots", limit
    paused = max(1.0, 1 / first["rps"] / first["latency_p50_s"]) if true <= 2 else 1.0
    assert true / MOST_UNSURE <= limit["slots"] <= true * MOST_UNSURE * paused, limit
    assert re.search(r"serves (about )?\d+(\.\d+)? requests? at a time", limit["sentence"]), limit


def test_pools_are_named_and_answer_at_an_equal_held_rate(cli: Cli, waiting_server: Path) -> None:
    commands = kit(waiting_server, "pool 4 10"), kit(waiting_server, "pool 4 20")
    found, document = curves(cli, *commands, "--names", "fast,slow")
    assert [curve["label"] for curve in found] == ["fast", "slow"]
    for curve in found:
        require_slots(curve, 4)
        assert set(curve["points"][0]) >= POINT
        connections = [point["connections"] for point in curve["points"]]
        assert connections == [2**i for i in range(len(connections))]
        assert curve["knee"] in connections
        assert curve["rps_low"] is None or curve["rps_low"] <= curve["rps"] <= curve["rps_high"]
    assert 0.01 <= found[0]["answer_s"] < 0.02 <= found[1]["answer_s"]
    held = document["held"]
    assert held["rate"] < found[1]["rps"], "what the slower one carries"
    fast, slow = held["servers"]
    for server, wait_s in ((fast, 0.01), (slow, 0.02)):
        assert server["p50_s"] is None or server["p50_s"] >= wait_s, "null where other work disturbed all trials"
        assert {"p99_s", "p999_s"} <= set(server)
        if (answer := server["answer"]) is not None:
            assert answer["without_cpu_s"] > wait_s / 2 > answer["cpu_s"] > 0
    assert {"latency_p50_s", "latency_p99_s"} <= {ratio["metric"] for ratio in held["ratios"]}


def test_lock_and_workers_of_gunicorn_are_counted(cli: Cli, waiting_server: Path) -> None:
    found, _ = curves(
        cli, kit(waiting_server, "lock 7"), gunicorn(2, "wait(50)"), "--names", "lock,workers", *CURVES_ALONE
    )
    for curve, slots in zip(found, (1, 2), strict=True):
        require_slots(curve, slots)


def test_rate_limiter_is_named_where_it_refuses(cli: Cli, waiting_server: Path) -> None:
    no_limit_of_tool = ("--set", "thresholds={generator_cpu: 1}")  # refusals cost it a core that others use, too
    (curve,), _ = curves(cli, kit(waiting_server, "refuse 200"), *CURVES_ALONE, *no_limit_of_tool)
    assert curve["limit"]["kind"] == "rate"
    assert "rate limit" in curve["limit"]["sentence"]
    assert max(point["refused"] for point in curve["points"]) > 0.5


def test_half_of_what_given_connections_carry_is_held(
    cli: Cli, waiting_server: Path, environment: dict[str, str]
) -> None:
    """Both servers carry more with each of 1,024 connections, but 16 carry no more than 16 / 30 ms."""
    commands = kit(waiting_server, "sleep 20"), kit(waiting_server, "sleep 30")
    found, document = curves(cli, *commands, "--names", "fast,slow", "--connections", 16, "--blocks", 2)
    assert all(curve["rps"] > 16 / 0.02 for curve in found), found
    assert document["held"]["rate"] <= 1.1 * 16 / 0.03 / 2
    slices = benchkit.load("slices", store=environment["BENCHKIT_STORE"])
    assert slices["duration_s"].min() >= 20 * 0.03, "each connection has 20 answers in a slice"
