"""Tests of the agreement of load tools, on known differences and on noise alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.agreement import Agreement, agreements, sentence
from benchkit.comparison.runs.run_data import StoredFinding

TOOLS = ("wrk", "ab", "hey", "h2load")


def trials(
    speed: Mapping[str, float],
    *,
    blocks: int = 6,
    noise: float = 0.05,
    seed: int = 1,
    connections: tuple[int, ...] = (8,),
) -> pd.DataFrame:
    """Return trials of tools whose rate is 10,000 times their factor, with noise of blocks and of trials."""
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for block in range(1, blocks + 1):
        of_block = draw.lognormal(0, noise)
        for tool, count in itertools.product(speed, connections):
            rps = 10_000 * speed[tool] * of_block * draw.lognormal(0, noise)
            rows.append(
                {
                    "trial_id": f"{tool}.{count}.b{block}",
                    "kind": "measure",
                    "tool": tool,
                    "block": block,
                    "factor_tool": tool,
                    "factor_connections": float(count),
                    "rps": rps,
                    "latency_mean_s": 8 / rps,
                    "latency_p50_s": 7 / rps,
                    "latency_p99_s": 30 / rps,
                    "latency_resolution_s": 1e-6,
                    "server_cpu_s_per_request": None,
                }
            )
    return pd.DataFrame(rows)


def of(found: tuple[Agreement, ...], metric: str) -> Agreement:
    (one,) = (each for each in found if each.metric == metric)
    return one


def test_very_different_tools_disagree_beyond_noise() -> None:
    found = agreements(trials({"wrk": 1.0, "ab": 1.0, "hey": 0.6, "h2load": 1.0}))
    rps = of(found, "rps")
    assert rps.beyond_noise is True
    assert rps.between == pytest.approx(1 / 0.6, rel=0.1)
    assert 1 < rps.within < 1.5
    assert rps.blocks == 6
    assert [each.tool for each in rps.tools] == list(TOOLS)
    assert {each.metric for each in found} == {"rps", "latency_mean_s", "latency_p50_s", "latency_p99_s"}
    text = sentence(rps)
    assert text.startswith("RPS: the tools disagree beyond noise: medians from ")
    assert "(hey)" in text
    assert "6 blocks" in text


def test_equal_tools_show_no_disagreement() -> None:
    rps = of(agreements(trials(dict.fromkeys(TOOLS, 1.0))), "rps")
    assert rps.beyond_noise is False
    assert "no disagreement beyond noise is shown" in sentence(rps)
    assert sentence(rps).endswith("This does not prove that the tools agree.")


def test_one_block_cannot_show_noise() -> None:
    rps = of(agreements(trials({"wrk": 1.0, "ab": 0.2}, blocks=1)), "rps")
    assert (rps.p, rps.beyond_noise) == (None, None)
    assert sentence(rps).endswith("1 block cannot show whether that is noise.")


def test_tool_with_coarse_resolution_is_left_out() -> None:
    frame = trials(dict.fromkeys(TOOLS, 1.0))
    frame.loc[frame["tool"] == "ab", "latency_resolution_s"] = 1e-3
    found = agreements(frame)
    assert of(found, "latency_p50_s").excluded_tools == {"ab": "a trial has a value of at most 10 times its resolution"}
    assert [each.tool for each in of(found, "latency_p50_s").tools] == ["wrk", "hey", "h2load"]
    assert of(found, "latency_mean_s").excluded_tools == {
        "ab": "a trial has a value of at most 10 times its resolution"
    }  # cut, not rounded
    frame.loc[frame["tool"] == "ab", "latency_p99_s"] = None  # below its step: a table has no figure there
    assert of(agreements(frame), "latency_p99_s").excluded_tools == {"ab": "not every trial reports this metric"}
    assert sentence(of(found, "latency_p50_s")).startswith("p50 latency: ")
    frame["latency_resolution_s"] = frame["latency_resolution_s"].where(frame["tool"] != "hey")
    frame.loc[frame["tool"] == "hey", "latency_p99_s"] = None
    assert of(agreements(frame), "latency_p99_s").excluded_tools["hey"] == "not every trial reports this metric"


def excluded(check: str, *trial_ids: str) -> list[StoredFinding]:
    return [StoredFinding(trial_id, check, "invalid", frozenset({"rps"})) for trial_id in trial_ids]


def test_invalid_trials_are_excluded_unless_the_tool_was_the_limit() -> None:
    frame = trials({"wrk": 1.0, "ab": 1.0, "hey": 0.6})
    frame.loc[frame["trial_id"] == "ab.8.b3", "rps"] = 10.0  # what a server that was restarted answered
    findings = [
        *excluded("service-restarted", "ab.8.b3"),
        *excluded("generator-saturated", *(f"hey.8.b{block}" for block in range(1, 7))),
        StoredFinding("wrk.8.b1", "errors", "suspect", frozenset({"rps"})),
    ]
    rps = of(agreements(frame, findings), "rps")
    assert {each.tool: each.trials for each in rps.tools} == {"wrk": 6, "ab": 5, "hey": 6}
    assert min(each.lowest for each in rps.tools) > 1000
    assert rps.blocks == 5
    none = of(agreements(frame, excluded("errors", *(f"ab.8.b{block}" for block in range(1, 7)))), "rps")
    assert none.excluded_tools == {"ab": "all of its trials are invalid"}
    assert [each.tool for each in none.tools] == ["wrk", "hey"]
    assert not any(each.metric == "rps" for each in agreements(frame, excluded("noisy-host", *frame["trial_id"])))


def test_p_values_are_adjusted_for_many_comparisons() -> None:
    few = of(agreements(trials({"wrk": 1.0, "ab": 0.94}, seed=3)), "rps")
    many = next(
        each
        for each in agreements(trials({"wrk": 1.0, "ab": 0.94}, seed=3, connections=tuple(range(1, 9))))
        if each.metric == "rps"
    )
    assert few.p is not None
    assert many.p is not None
    assert many.p > few.p or many.p == 1.0
