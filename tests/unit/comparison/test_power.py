from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchkit.comparison.power import (
    RatioNoise,
    analyse_power,
    mde,
    noise_of,
    resolution,
    similar_run,
)
from benchkit.comparison.runs.run_data import RunData
from benchkit.errors import InputError
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.stats.samples import Exclusion
from benchkit.store.store import Store
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

CELLS = [{"stack": "go"}, {"stack": "nginx"}, {"stack": "node"}]
NAMES = [f"stack={cell['stack']}" for cell in CELLS]


def rates(blocks: int, spread: Mapping[str, float], seed: int = 1) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {name: 100 * np.exp(spread[name] * generator.standard_normal(blocks)) for name in spread}


def test_power_without_earlier_runs_has_limits_only() -> None:
    found = analyse_power(manifest_of(CELLS[:2], blocks=2))
    assert found.noise_from is None
    (ratio,) = found.ratios
    assert ratio.resolution.limits.startswith("2 blocks cannot show a difference")
    assert ratio.resolution.detectable is None


def test_a_run_that_may_end_early_has_the_power_of_its_fewest_blocks() -> None:
    planned = manifest_of(CELLS[:2], blocks=60, scenario={"until": {"precision": 0.05}})
    earlier = RunData(planned, trials_of(rates(40, dict.fromkeys(NAMES[:2], 0.05))))
    found = analyse_power(planned, earlier)
    resolved = found.ratios[0].resolution
    assert (found.noise_from, resolved.blocks, resolved.alpha) == ("r1", 7, ALPHA_PER_LOOK)
    noise = noise_of(earlier.trials, "rps")
    assert noise is not None
    assert resolved.detectable == mde(noise, 7, alpha=ALPHA_PER_LOOK)


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
    found = analyse_power(planned).ratios
    assert [(each.metric, each.cell_id, each.baseline, each.claim) for each in found] == [
        ("rps", "stack=nginx", "stack=go", None),
        ("rps", "stack=node", "stack=go", None),
        ("rps", "stack=node", "stack=nginx", "slower"),
        ("latency_p99_s", "stack=nginx", "stack=go", "p99"),
    ]


def test_the_newest_similar_run_gives_the_noise(tmp_path: Path, stored: StoreRun) -> None:
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
    alike = [f"alike{i}" for i in range(2)]
    for name in alike:
        manifest = manifest_of(CELLS, run_id=name, scenario={**load, "design": "blocks"})
        later = manifest.model_copy(update={"started_at": manifest.started_at.replace(minute=int(name[-1]))})
        stored(later, trials_of(rates(6, {"stack=go": 0.1}), run_id=name))
    planned = manifest_of(CELLS[:2], run_id="planned", scenario=load)
    found = similar_run(Store(tmp_path), planned)
    assert found is not None
    assert (found.manifest.run_id, len(found.trials)) == (alike[-1], 6)
    (file,) = tmp_path.glob(f"tables/trials/*/run_id={alike[-1]}/*.parquet")
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(InputError, match=re.escape(str(file))):
        similar_run(Store(tmp_path), planned)


NOISE = RatioNoise(0.1)


def effect(blocks: int, family: int = 1) -> float:
    found = mde(NOISE, blocks, family)
    assert found is not None
    return math.log(found) / NOISE.sd


def test_detectable_effect_of_six_blocks_by_hand() -> None:
    # Six blocks show a difference only if all signs agree: Φ(effect)⁶ is the power.
    assert 0.82 <= stats.norm.cdf(effect(6)) ** 6 < 0.86


def test_with_t_the_effect_is_that_of_its_power_function() -> None:
    critical = stats.t.ppf(1 - 0.01 / 2, 4)
    assert stats.nct.sf(critical, 4, effect(5) * math.sqrt(5)) == pytest.approx(0.82)


def test_too_few_blocks_detect_nothing() -> None:
    assert mde(NOISE, 2) is None
    two = resolution(2, 1, NOISE)
    assert two.limits == "2 blocks cannot show a difference: an interval needs 3."
    five, six = (resolution(blocks, 1, NOISE) for blocks in (5, 6))
    assert (five.detectable or 0) > (six.detectable or 9)
    assert six.limits == ""
    assert five.limits == (
        "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can): the t-test decides, at p below 0.01. "
        "It assumes nearly normal noise."
    )


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
