from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchkit.comparison.power import (
    MAX_RUNS,
    RatioNoise,
    analyse_power,
    earlier_runs,
    mde,
    noise_of,
    planned_ratios,
    resolution,
)
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.stats.samples import Exclusion
from benchkit.store.store import Store
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

CELLS = [{"stack": "go"}, {"stack": "nginx"}, {"stack": "node"}]
NAMES = [f"stack={cell['stack']}" for cell in CELLS]


def rates(blocks: int, spread: Mapping[str, float], seed: int = 1) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {name: 100 * np.exp(spread[name] * generator.standard_normal(blocks)) for name in spread}


def test_several_runs_are_one_estimate() -> None:
    planned = manifest_of(CELLS[:2], blocks=10)
    runs = [
        RunData(planned, trials_of(rates(blocks, dict.fromkeys(NAMES[:2], 0.1), seed)))
        for seed, blocks in ((1, 6), (2, 20))
    ]
    found = analyse_power(planned, runs, ["r1", "r2"]).ratios[0].resolution
    sds = [noise_of(data.trials, "rps") for data in runs]
    assert found.noise_df == 5 + 19
    assert sds[0] is not None
    assert sds[1] is not None
    assert found.noise_sd == pytest.approx(math.sqrt((5 * sds[0].sd ** 2 + 19 * sds[1].sd ** 2) / 24))


def test_power_without_earlier_runs_has_limits_only() -> None:
    found = analyse_power(manifest_of(CELLS[:2], blocks=2), [], [])
    assert found.noise_from == ()
    (ratio,) = found.ratios
    assert ratio.resolution.limits.startswith("2 blocks cannot show a difference")
    assert ratio.resolution.detectable is None


def test_a_run_that_may_end_early_has_an_expected_length() -> None:
    trials = trials_of(rates(40, dict.fromkeys(NAMES[:2], 0.05)))
    for precision, least, most in ((0.5, 7, 7), (0.05, 8, 29), (0.01, 30, 30)):
        planned = manifest_of(CELLS[:2], blocks=30, scenario={"until": {"precision": precision}})
        found = analyse_power(planned, [RunData(planned, trials)], ["r1"])
        assert found.ratios[0].resolution.alpha == ALPHA_PER_LOOK
        assert found.blocks_expected is not None
        assert least <= found.blocks_expected <= most


def test_power_of_an_adaptive_run_uses_its_expected_blocks() -> None:
    trials = trials_of(rates(40, dict.fromkeys(NAMES[:2], 0.05)))
    planned = manifest_of(CELLS[:2], blocks=60, scenario={"until": {"precision": 0.05, "budget_s": 100}})
    found = analyse_power(planned, [RunData(planned, trials)], ["r1"])
    resolved = found.ratios[0].resolution
    assert resolved.blocks == found.blocks_expected
    assert 8 < resolved.blocks < 30
    noise = RatioNoise(resolved.noise_sd or math.nan, resolved.noise_df)
    assert resolved.detectable == pytest.approx(mde(noise, resolved.blocks, alpha=ALPHA_PER_LOOK))
    # 100 seconds have time for eight blocks of twelve, and where nothing is known of the noise, the fewest count.
    assert analyse_power(planned, [RunData(planned, trials)], ["r1"], block_s=12).ratios[0].resolution.blocks == 8
    assert analyse_power(planned, [], []).ratios[0].resolution.blocks == 7


def test_claims_request_ratios_in_their_metric() -> None:
    claims = [
        {"text": "slower", "ratio": {"of": {"stack": "node"}, "to": {"stack": "nginx"}}, "at_most": 1},
        {
            "text": "p99",
            "metric": "latency_p99_s",
            "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}},
            "at_least": 1,
        },
        {"text": "elsewhere", "ratio": {"of": {"stack": "zig"}, "to": {"stack": "go"}}, "at_least": 1},
    ]
    planned = manifest_of(CELLS, scenario={"claims": claims, "until": {"precision": 0.1, "metrics": ["rps"]}})
    assert [(metric, pair.cell_id, pair.baseline, claim) for metric, pair, claim in planned_ratios(planned)] == [
        ("rps", "stack=nginx", "stack=go", None),
        ("rps", "stack=node", "stack=go", None),
        ("rps", "stack=node", "stack=nginx", "slower"),
        ("latency_p99_s", "stack=nginx", "stack=go", "p99"),
    ]


def test_only_similar_runs_give_the_noise(tmp_path: Path, stored: StoreRun) -> None:
    load = {"load": {"tool": "wrk", "duration_s": 5}}
    others: dict[str, dict[str, Any]] = {
        "other-load": {"scenario": {"load": {"tool": "wrk", "duration_s": 1}}},
        "other-scale": {"scenario": load, "scale": "smoke"},
        "other-host": {"scenario": load, "facts": {"cpus": [0, 1, 2, 3], "kernel": "6.1"}},
        "sequential": {"scenario": {**load, "design": "sequential"}},
        "running": {"scenario": load, "status": "running"},
    }
    for name, fields in others.items():
        stored(manifest_of(CELLS[:2], run_id=name, **fields), trials_of(rates(6, {"stack=go": 0.1}), run_id=name))
    alike = [f"alike{i}" for i in range(MAX_RUNS + 1)]
    for name in alike:
        manifest = manifest_of(CELLS, run_id=name, scenario={**load, "design": "blocks"})
        later = manifest.model_copy(update={"started_at": manifest.started_at.replace(minute=int(name[-1]))})
        stored(later, trials_of(rates(6, {"stack=go": 0.1}), run_id=name))
    planned = manifest_of(CELLS[:2], run_id="planned", scenario=load)
    found, damaged = earlier_runs(Store(tmp_path), planned)
    assert damaged == []
    assert [data.manifest.run_id for data in found] == alike[1:]
    assert all(len(data.trials) == 6 for data in found)
    (file,) = tmp_path.glob(f"tables/trials/*/run_id={alike[-1]}/*.parquet")
    file.write_bytes(file.read_bytes()[:50])
    found, damaged = earlier_runs(Store(tmp_path), planned)
    assert [data.manifest.run_id for data in found] == alike[:-1]
    assert [str(file) in str(error) for error in damaged] == [True]


NOISE = RatioNoise(0.1)


def effect(blocks: int, family: int = 1) -> float:
    found = mde(NOISE, blocks, family)
    assert found is not None
    return math.log(found) / NOISE.sd


def test_detectable_effect_of_six_blocks_by_hand() -> None:
    # Six blocks show a difference only if all signs agree: Φ(effect)⁶ is the power.
    assert stats.norm.cdf(effect(6)) ** 6 == pytest.approx(0.82, abs=0.015)


def test_with_t_the_effect_is_that_of_its_power_function() -> None:
    found = effect(20)
    critical = stats.t.ppf(0.975, 19)
    assert stats.nct.sf(critical, 19, found * math.sqrt(20)) == pytest.approx(0.82)


def test_too_few_blocks_detect_nothing() -> None:
    assert mde(NOISE, 2) is None
    two = resolution(2, 1, NOISE)
    assert (two.half_width, two.limits) == (None, "2 blocks cannot show a difference: an interval needs 3.")
    five, six = (resolution(blocks, 1, NOISE) for blocks in (5, 6))
    assert (five.test, five.shown_from, six.test) == ("t", 6, "sign-flip")
    assert (five.detectable or 0) > (six.detectable or 9)
    assert five.text.startswith(
        "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can): the t-test decides, at p below 0.01. "
    )
    assert five.half_width == pytest.approx(math.exp(2.776445 * 0.1 / math.sqrt(5)))


def test_noise_is_the_residual_of_cells_and_blocks() -> None:
    generator = np.random.default_rng(4)
    noise = 0.08 * generator.standard_normal((4, 60))
    levels, drift = np.array([[5], [6], [4], [5.5]]), np.linspace(0, -1, 60)
    trials = trials_of({name: np.exp(row) for name, row in zip("abcd", levels + drift + noise, strict=True)})
    found = noise_of(trials, "rps")
    assert found is not None
    assert found.df == 3 * 59
    assert found.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    out = [Exclusion(f"r1.a.b{block}", "invalid") for block in range(1, 31)]
    less = noise_of(trials, "rps", out)
    assert less is not None
    assert less.df == 3 * 59 - 30
    assert less.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    assert noise_of(trials_of({"a": [1, 2, 3]}), "rps") is None
    assert noise_of(trials_of({"a": [1], "b": [2]}), "rps") is None


def test_noise_of_an_incomplete_layout_equals_least_squares() -> None:
    generator = np.random.default_rng(9)
    logs = np.arange(3.0)[:, None] + generator.standard_normal(5) + 0.1 * generator.standard_normal((3, 5))
    trials = trials_of({name: np.exp(row) for name, row in zip("abc", logs, strict=True)})
    lost = {("a", 1), ("b", 2), ("b", 3), ("c", 4), ("a", 5)}  # no block is whole
    found = noise_of(trials, "rps", [Exclusion(f"r1.{cell}.b{block}", "invalid") for cell, block in lost])
    kept = [(c, b) for c in range(3) for b in range(5) if ("abc"[c], b + 1) not in lost]
    design = np.array([[*(c == i for i in range(3)), *(b == j for j in range(5))] for c, b in kept], dtype=float)
    values = np.array([logs[place] for place in kept])
    residual = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    df = len(kept) - np.linalg.matrix_rank(design)
    assert found is not None
    assert found.df == df == 10 - 7
    assert found.sd == pytest.approx(math.sqrt(2 * float(residual @ residual) / df))


def test_noise_from_a_pilot_is_taken_at_its_upper_limit() -> None:
    # 80 % of pilots of normal noise have an upper limit above the truth.
    pilots = np.random.default_rng(2).standard_normal((4_000, 5)).std(axis=1, ddof=1)
    above = [RatioNoise(float(sd), 4).safe_sd >= 1 for sd in pilots]
    assert np.mean(above) == pytest.approx(0.8, abs=0.02)
    assert RatioNoise(0.1).safe_sd == 0.1
    assert (mde(RatioNoise(0.1, 4), 10) or 0) > (mde(RatioNoise(0.1), 10) or 9)
